package sqlgen

import (
	"regexp"
	"slices"
	"strings"

	"replicator/schema"
)

// mysqlSameType says whether two types are one, though a server may write them differently: without the width of an integer, or
// JSON as the LONGTEXT that it is on MariaDB.
func mysqlSameType(a, b schema.Type) bool {
	if _, integer := mysqlIntegers[a.Kind]; integer && a.Kind == b.Kind {
		return true
	}
	return a.Kind == b.Kind && a.Length == b.Length && a.Scale == b.Scale && slices.Equal(a.Values, b.Values) && mysqlBase(a) == mysqlBase(b)
}

// mysqlHolds says whether a column of type t holds every value of type v, unchanged.
func mysqlHolds(t, v schema.Type) bool {
	if mysqlSameType(t, v) {
		return true
	}
	if a, ok := mysqlIntegers[t.Kind]; ok {
		b, also := mysqlIntegers[v.Kind]
		return also && a.least <= b.least && a.most >= b.most && t.Kind != schema.Year
	}
	switch t.Kind {
	case schema.Decimal:
		return v.Kind == schema.Decimal && t.Scale >= v.Scale && t.Length-t.Scale >= v.Length-v.Scale
	case schema.Float64:
		return v.Kind == schema.Float32
	case schema.Varchar, schema.Text:
		return mysqlRoom(t) >= mysqlRoom(v) && (v.Kind == schema.Varchar || v.Kind == schema.Text || v.Kind == schema.Char)
	case schema.Bytes:
		return v.Kind == schema.Bytes && mysqlBase(t) != "binary" && mysqlRoom(t) >= mysqlRoom(v)
	case schema.Time, schema.Timestamp, schema.TimestampTZ:
		return t.Kind == v.Kind && mysqlBase(t) == mysqlBase(v) && t.Scale >= v.Scale
	case schema.Enum, schema.Set:
		return t.Kind == v.Kind && len(t.Values) >= len(v.Values) && slices.Equal(t.Values[:len(v.Values)], v.Values)
	}
	return false
}

// mysqlRoom is how many bytes a text or binary column takes, at four bytes for a character.
func mysqlRoom(t schema.Type) int {
	switch base := mysqlBase(t); {
	case strings.HasPrefix(base, "tiny"):
		return 1<<8 - 1
	case strings.HasPrefix(base, "medium"):
		return 1<<24 - 1
	case strings.HasPrefix(base, "long") || base == "json":
		return 1<<32 - 1
	case base == "text" || base == "blob":
		return 1<<16 - 1
	case t.Kind == schema.Bytes:
		return t.Length
	}
	return 4 * t.Length
}

func mysqlQuoted(s string) string { return string(appendMySQLText(nil, []byte(s))) }

// mysqlDefault returns the default of a column of type t as SQL, from its text at the source. It reports false for one that means
// nothing here: expressions, and instants, which stand in the time zone of whoever wrote them.
func mysqlDefault(source, t schema.Type, text string) (string, bool) {
	switch t.Kind {
	case schema.Bool, schema.Int8, schema.Int16, schema.Int24, schema.Int32, schema.Int64, schema.Year,
		schema.Uint8, schema.Uint16, schema.Uint24, schema.Uint32, schema.Uint64:
		if n, ok := map[string]string{"true": "1", "false": "0"}[strings.ToLower(text)]; ok {
			return n, true
		}
		return text, integerLiteral.MatchString(text)
	case schema.Decimal:
		return text, decimalLiteral.MatchString(text)
	case schema.Float32, schema.Float64:
		return text, floatLiteral.MatchString(text)
	case schema.Bit:
		return text, bitLiteral.MatchString(text)
	case schema.Char, schema.Varchar, schema.Enum, schema.Set:
		return mysqlQuoted(text), source.Kind != schema.Text && !strings.Contains(text, "\x00")
	case schema.Text: // which has expressions only
		switch source.Kind {
		case schema.Char, schema.Varchar, schema.Enum, schema.Set:
			return "(" + mysqlQuoted(text) + ")", !strings.Contains(text, "\x00")
		case schema.Text:
			return "(" + text + ")", textLiteral.MatchString(text)
		}
	case schema.Date:
		return mysqlQuoted(text), dateLiteral.MatchString(text)
	case schema.Timestamp, schema.TimestampTZ:
		if nowFunction.MatchString(text) {
			return mysqlScale("CURRENT_TIMESTAMP", t.Scale), true
		}
		return mysqlQuoted(text), t.Kind == schema.Timestamp && instantLiteral.MatchString(text)
	case schema.Time:
		return mysqlQuoted(text), clockLiteral.MatchString(text)
	}
	return "", false
}

// The bounds of comments, in characters.
const (
	mysqlColumnComment = 1024
	mysqlTableComment  = 2048
)

// mysqlComment writes a comment, of which the server takes a string alone. Beyond its bound it is cut off.
func mysqlComment(s string, most int) string {
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most])
	}
	return "'" + strings.NewReplacer("'", "''", `\`, `\\`, "\x00", "").Replace(s) + "'"
}

// definition writes a column. Its default is SQL.
func (m MySQL) definition(c *schema.Column) string {
	sql := m.Quote(c.Name) + " " + c.Type.Native
	if c.Collation != "" {
		sql += " COLLATE " + c.Collation
	}
	if c.NotNull {
		sql += " NOT NULL"
	} else {
		sql += " NULL" // without it, old defaults make a TIMESTAMP NOT NULL
	}
	if c.Default != nil {
		sql += " DEFAULT " + *c.Default
	}
	if c.OnUpdate {
		sql += " ON UPDATE " + mysqlScale("CURRENT_TIMESTAMP", c.Type.Scale)
	}
	if c.AutoIncrement {
		sql += " AUTO_INCREMENT"
	}
	if c.Invisible && (!m.MariaDB || !c.NotNull || c.Default != nil) { // MariaDB hides nothing that must be given a value
		sql += " INVISIBLE"
	}
	if c.Comment != "" {
		sql += " COMMENT " + mysqlComment(c.Comment, mysqlColumnComment)
	}
	return sql
}

// mysqlIncomplete is From's column as if it had only what the target has, where that is less than To's.
func mysqlIncomplete(from schema.Column, has, to *schema.Column) *schema.Column {
	if mysqlHolds(to.Type, has.Type) {
		from.Type = has.Type
	}
	from.NotNull = from.NotNull && has.NotNull
	from.OnUpdate = from.OnUpdate && has.OnUpdate
	from.Invisible = from.Invisible && has.Invisible
	if has.Default == nil {
		from.Default = nil
	}
	if has.Comment == "" {
		from.Comment = ""
	}
	return &from
}

// changesDefault says whether the source's default has changed, and the target's is the former one.
func (w *mysqlEvolution) changesDefault(has, from, to *schema.Column) bool {
	if mysqlSameDefault(from.Default, to.Default) || mysqlSameDefault(has.Default, to.Default) {
		return false
	}
	if has.Default != nil && !mysqlSameDefault(has.Default, from.Default) {
		w.keep(ChangeDefault, has.Name, "the target's default is its own choice")
		return false
	}
	return true
}

// mysqlSameDefault says whether two defaults are one, of which each is SQL or as the catalog writes it: 'x' is x there on MySQL, and 1.5 may be 1.50.
func mysqlSameDefault(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return mysqlConstant(*a) == mysqlConstant(*b)
}

var zerosBehind = regexp.MustCompile(`^(.*[0-9])\.([0-9]*?)0+$`)

func mysqlConstant(sql string) string {
	if literal := storedText.FindStringSubmatch(sql); literal != nil {
		return literal[1]
	}
	if strings.HasPrefix(sql, "(") && strings.HasSuffix(sql, ")") {
		sql = sql[1 : len(sql)-1]
	}
	if nowFunction.MatchString(sql) {
		return "CURRENT_TIMESTAMP"
	}
	if textLiteral.MatchString(sql) {
		sql = strings.ReplaceAll(sql[1:len(sql)-1], "''", "'")
	}
	if m := zerosBehind.FindStringSubmatch(sql); m != nil {
		sql = strings.TrimSuffix(m[1]+"."+m[2], ".")
	}
	return sql
}

// storedText is how MySQL's catalog writes a text as an expression.
var storedText = regexp.MustCompile(`^_[a-z0-9]+\\'([^'\\]*)\\'$`)

// storedDefault returns a default as SQL from the catalog's text of it, which is an expression on MariaDB, and on MySQL the bare value.
func (m MySQL) storedDefault(text string) (string, bool) {
	if literal := storedText.FindStringSubmatch(text); literal != nil {
		return "('" + literal[1] + "')", true
	}
	switch {
	case m.MariaDB || nowFunction.MatchString(text) || bitLiteral.MatchString(text):
		return text, true
	case strings.ContainsAny(text, "(\\"): // an expression, or what may be one
		return "", false
	}
	return mysqlQuoted(text), true
}

// Implicit implements Implier: the server's own zero of a type, as it stands in a literal of the column.
func (MySQL) Implicit(_, t schema.Type) []byte {
	switch mysqlLiteralOf(t) {
	case literalNumber:
		return []byte{'0'}
	case literalBytes:
		if t.Kind != schema.Bytes {
			return nil
		}
		return make([]byte, mysqlPadding(t))
	case literalDate:
		return []byte("0000-00-00")
	case literalTime:
		return []byte("00:00:00")
	case literalTimestamp:
		return []byte("0000-00-00 00:00:00")
	}
	switch t.Kind {
	case schema.Enum:
		if len(t.Values) > 0 {
			return []byte(t.Values[0])
		}
	case schema.JSON:
		return []byte("null")
	case schema.Char, schema.Varchar, schema.Text, schema.Set:
		return []byte{}
	}
	return nil
}

// mysqlPadding is how many bytes an empty value of a type has.
func mysqlPadding(t schema.Type) int {
	if mysqlBase(t) == "binary" {
		return t.Length
	}
	return 0
}
