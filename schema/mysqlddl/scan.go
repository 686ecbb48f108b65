package mysqlddl

import "strings"

// token is a piece of SQL between comments and blanks.
type token struct {
	start, end int
	word       string // in upper case; empty: not a word, or a quoted one
	depth      int    // parentheses that are open around it
}

// blankComments returns sql with its comments made blanks, so that positions stay. Of a conditional comment, as in
// /*!50100 ... */ and MariaDB's /*M!100301 ... */, only what encloses it is made blanks: which server would have read it is
// known to the structured change alone, and what it has no column for changes nothing.
func blankComments(sql string) string {
	out := []byte(sql)
	conditional := false
	for i := 0; i < len(sql); {
		rest := sql[i:]
		switch n := comment(rest); {
		case conditional && strings.HasPrefix(rest, "*/"):
			blank(out[i : i+2])
			conditional = false
			i += 2
		case strings.HasPrefix(rest, "/*!"), strings.HasPrefix(rest, "/*M!"):
			open := strings.IndexByte(rest, '!') + 1
			for open < len(rest) && '0' <= rest[open] && rest[open] <= '9' {
				open++
			}
			blank(out[i : i+open])
			conditional = true
			i += open
		case n > 0:
			blank(out[i : i+n])
			i += n
		default:
			i += quotedOrOne(rest)
		}
	}
	return string(out)
}

func blank(b []byte) {
	for i := range b {
		b[i] = ' '
	}
}

// comment returns the length of the plain comment that s begins with, or 0.
func comment(s string) int {
	end := "\n"
	switch {
	case strings.HasPrefix(s, "/*"):
		end = "*/"
	case strings.HasPrefix(s, "#"), s == "--":
	case len(s) > 2 && s[:2] == "--" && s[2] <= ' ':
	default:
		return 0
	}
	if n := strings.Index(s, end); n >= 0 {
		return n + len(end)
	}
	return len(s)
}

// quotedOrOne returns the length of the quoted text or name that s begins with, or 1.
func quotedOrOne(s string) int {
	quote := s[0]
	if quote != '\'' && quote != '"' && quote != '`' {
		return 1
	}
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && quote != '`':
			i++
		case s[i] == quote && i+1 < len(s) && s[i+1] == quote:
			i++
		case s[i] == quote:
			return i + 1
		}
	}
	return len(s)
}

// scan splits sql, which has no comments, into tokens.
func scan(sql string) []token {
	var out []token
	depth := 0
	for i := 0; i < len(sql); {
		if sql[i] <= ' ' {
			i++
			continue
		}
		t := token{start: i, depth: depth}
		n := 0
		for i+n < len(sql) && isWord(sql[i+n]) {
			n++
		}
		if n > 0 {
			t.word = strings.ToUpper(sql[i : i+n])
		} else {
			n = quotedOrOne(sql[i:])
		}
		switch {
		case sql[i] == '(':
			depth++
		case sql[i] == ')' && depth > 0:
			depth--
			t.depth = depth
		}
		i += n
		t.end = i
		out = append(out, t)
	}
	return out
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || c >= 0x80 || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
