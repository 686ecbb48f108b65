package mysqlddl

import (
	"slices"
	"strings"
)

// statement is one statement of a text, with what the parser does not know taken out.
type statement struct {
	position int    // of its first token in the text
	sql      string // as it was written, without comments
	read     string // what is left for the parser, of the same length
	kind     string // its verb, and what it is about, in lower case: "alter table"
	ignored  bool   // it has no meaning in another database
	replaces bool   // CREATE OR REPLACE: what was there is dropped first
	unknown  bool   // its verb is none of MySQL's
}

// objects are what CREATE, ALTER and DROP are about, and whether that means something in another database.
var objects = map[string]bool{
	"TABLE": true, "TABLES": true, "INDEX": true, "TEMPORARY": false, "VIEW": false, "TRIGGER": false, "PROCEDURE": false, "FUNCTION": false,
	"EVENT": false, "PACKAGE": false, "USER": false, "ROLE": false, "DATABASE": false, "SCHEMA": false, "SEQUENCE": false, "SERVER": false,
	"TABLESPACE": false, "LOGFILE": false, "INSTANCE": false, "RESOURCE": false, "LIBRARY": false, "PREPARE": false,
}

// routines have a body of statements, so that the end of theirs is not the first semicolon.
var routines = []string{"TRIGGER", "PROCEDURE", "FUNCTION", "EVENT", "PACKAGE"}

// otherVerbs begin statements that change no table's schema. Debezium sends some of them, as SET at the start of a snapshot.
var otherVerbs = []string{
	"ANALYZE", "BEGIN", "BINLOG", "CACHE", "CALL", "CHANGE", "CHECK", "CHECKSUM", "COMMIT", "DELETE", "DO", "END", "EXECUTE", "FLUSH", "GRANT",
	"INSERT", "INSTALL", "KILL", "LOAD", "LOCK", "OPTIMIZE", "PREPARE", "PURGE", "RELEASE", "REPAIR", "REPLACE", "RESET", "REVOKE", "ROLLBACK",
	"SAVEPOINT", "SELECT", "SET", "SHOW", "SHUTDOWN", "START", "STOP", "UNINSTALL", "UNLOCK", "UPDATE", "USE", "WITH", "XA",
}

// split returns the statements of a text.
func split(text string) []statement {
	sql := blankComments(text)
	tokens := scan(sql)
	var out []statement
	for len(tokens) > 0 {
		if sql[tokens[0].start] == ';' {
			tokens = tokens[1:]
			continue
		}
		s := classify(tokens)
		n := len(tokens)
		if verb, object, _ := strings.Cut(strings.ToUpper(s.kind), " "); verb != "CREATE" || !slices.Contains(routines, object) {
			if end := slices.IndexFunc(tokens, func(t token) bool { return sql[t.start] == ';' }); end >= 0 {
				n = end
			}
		}
		s.position = tokens[0].start
		s.sql = sql[tokens[0].start:tokens[n-1].end]
		s.read = simplify(sql, tokens[:n])
		out = append(out, s)
		tokens = tokens[n:]
	}
	return out
}

// classify says what the statement that tokens begin with is about.
func classify(tokens []token) statement {
	verb := tokens[0].word
	s := statement{kind: strings.ToLower(verb)}
	switch verb {
	case "CREATE", "ALTER", "DROP", "RENAME":
	case "TRUNCATE":
		return s
	default:
		s.ignored = slices.Contains(otherVerbs, verb)
		s.unknown = !s.ignored
		return s
	}
	// Before the object's kind stand OR REPLACE, DEFINER = ..., ALGORITHM = ..., UNIQUE, ONLINE and the like.
	for i, t := range tokens[1:] {
		if t.depth > 0 || t.word == "ON" {
			break
		}
		if matters, known := objects[t.word]; known {
			s.kind = strings.ToLower(verb + " " + t.word)
			s.ignored = !matters
			s.replaces = i >= 2 && tokens[1].word == "OR" && tokens[2].word == "REPLACE"
			return s
		}
	}
	s.unknown = true
	return s
}

// simplify makes blanks of what MariaDB has and the parser has not, and what does not matter for what a change is: IF EXISTS and IF NOT
// EXISTS, as the catalog is looked at anyway; how long to wait; that rows are versioned.
func simplify(sql string, tokens []token) string {
	start := tokens[0].start
	out := []byte(sql[start:tokens[len(tokens)-1].end])
	drop := func(list []token) {
		for _, t := range list {
			blank(out[t.start-start : t.end-start])
		}
	}
	named := false // the object's kind was passed
	for i := range tokens {
		at := tokens[i:]
		switch {
		case words(at, "IF", "NOT", "EXISTS"), words(at, "WITH", "SYSTEM", "VERSIONING"), words(at, "WITHOUT", "SYSTEM", "VERSIONING"):
			drop(at[:3])
		case words(at, "IF", "EXISTS"), !named && words(at, "OR", "REPLACE"):
			drop(at[:2])
		case words(at, "WAIT") && len(at) > 1 && isNumber(at[1].word):
			drop(at[:2])
		case words(at, "ADD", "SYSTEM", "VERSIONING"), words(at, "DROP", "SYSTEM", "VERSIONING"):
			drop(at[:3])
			copy(out[at[1].start-start:], "FORCE") // an option that changes nothing, so that the commas around it still fit
		case !named && (words(at, "ONLINE") || words(at, "OFFLINE") || i > 0 && words(at, "IGNORE")):
			drop(at[:1])
		case !named && words(at, "TABLES"):
			out[at[0].end-1-start] = ' '
			named = true
		case !named && (words(at, "TABLE") || words(at, "INDEX")):
			named = true
		}
	}
	return string(out)
}

// words says whether the tokens begin with these words, outside parentheses.
func words(tokens []token, want ...string) bool {
	if len(tokens) < len(want) {
		return false
	}
	for i, w := range want {
		if tokens[i].word != w || tokens[i].depth > 0 {
			return false
		}
	}
	return true
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }
