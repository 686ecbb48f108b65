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
