package sqlgen

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"replicator/schema"
)

var (
	integerLiteral = regexp.MustCompile(`^-?[0-9]+$`)
	decimalLiteral = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?$`)
	floatLiteral   = regexp.MustCompile(`^-?[0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?$`)
	clockLiteral   = regexp.MustCompile(`^-?[0-9]{2,3}:[0-5][0-9]:[0-5][0-9]$`)
	textLiteral    = regexp.MustCompile(`^'(?:[^'\\\x00]|'')*'$`)
	bitLiteral     = regexp.MustCompile(`^b'[01]+'$`)
	dateLiteral    = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2}$`)
	instantLiteral = regexp.MustCompile(`^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$`)
	nowFunction    = regexp.MustCompile(`(?i)^(current_timestamp|now|localtime|localtimestamp)(\([0-6]?\))?$`)
)

// pgDefault returns the default of a column of type t as SQL, from its text at the source. It reports false for one that means
// nothing here, or something else: expressions, zero dates, and instants, which stand in the time zone of whoever wrote them.
func pgDefault(source, t schema.Type, text string) (string, bool) {
	switch t.Kind {
	case schema.Int16, schema.Int32, schema.Int64:
		return text, integerLiteral.MatchString(text)
	case schema.Decimal:
		return text, decimalLiteral.MatchString(text)
	case schema.Float32, schema.Float64:
		return text, floatLiteral.MatchString(text)
	case schema.Bool:
		b, ok := map[string]string{"0": "false", "1": "true", "b'0'": "false", "b'1'": "true", "false": "false", "true": "true"}[strings.ToLower(text)]
		return b, ok
	case schema.Varchar, schema.Text:
		switch source.Kind {
		case schema.Char, schema.Varchar, schema.Enum, schema.Set:
			return pgLiteral(text), !strings.Contains(text, "\x00")
		case schema.Text: // MySQL has only expressions here
			return text, textLiteral.MatchString(text)
		}
	case schema.Enum:
		return pgLiteral(text), slices.Contains(t.Values, text)
	case schema.Other: // a SET's members
		return pgLiteral(string(appendMembers(nil, text))), isTextArray(t) && source.Kind == schema.Set && !strings.Contains(text, "\x00")
	case schema.Date:
		_, err := time.Parse(time.DateOnly, text)
		return pgLiteral(text), err == nil && text >= "0001"
	case schema.Timestamp:
		if nowFunction.MatchString(text) {
			return "CURRENT_TIMESTAMP", true
		}
		_, err := time.Parse(time.DateTime, text)
		return pgLiteral(text), err == nil && text >= "0001" && len(text) == len(time.DateTime)
	case schema.TimestampTZ:
		return "CURRENT_TIMESTAMP", nowFunction.MatchString(text)
	case schema.Interval, schema.TimeOfDay:
		return pgLiteral(text), clockLiteral.MatchString(text)
	}
	return "", false
}

// pgLiteral returns s as a string constant, also where backslashes would escape (standard_conforming_strings off).
func pgLiteral(s string) string {
	quoted := `'` + strings.ReplaceAll(s, `'`, `''`) + `'`
	if strings.Contains(s, `\`) {
		return ` E` + strings.ReplaceAll(quoted, `\`, `\\`)
	}
	return quoted
}

// sameDefault says whether two defaults of a column of type t are one, of which each is as pgDefault writes it or as the catalog does: 'new'
// is 'new'::character varying there, -5 is '-5'::integer, and a double's 1e10 is '10000000000'::double precision.
func sameDefault(t schema.Type, a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := pgConstant(*a), pgConstant(*b)
	if bits := map[schema.Kind]int{schema.Float32: 32, schema.Float64: 64}[t.Kind]; bits > 0 {
		f, errX := strconv.ParseFloat(x, bits)
		g, errY := strconv.ParseFloat(y, bits)
		return x == y || errX == nil && errY == nil && f == g
	}
	return x == y
}

func pgConstant(expr string) string {
	expr = strings.TrimSpace(expr)
	escaped := strings.HasPrefix(expr, "E'")
	s := strings.TrimPrefix(expr, "E")
	if !strings.HasPrefix(s, "'") {
		return expr
	}
	n := quotedLength(s, escaped)
	if n < 0 || n < len(s) && !strings.HasPrefix(s[n:], "::") {
		return expr
	}
	s = strings.ReplaceAll(s[1:n-1], "''", "'")
	if escaped {
		s = strings.ReplaceAll(s, `\\`, `\`)
	}
	return s
}

// quotedLength returns the length of the string constant that s begins with, or -1.
func quotedLength(s string, escaped bool) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '\\' && escaped, s[i] == '\'' && i+1 < len(s) && s[i+1] == '\'':
			i++
		case s[i] == '\'':
			return i + 1
		}
	}
	return -1
}

// pgImplicit returns what the rows that are there get in a column that is added NOT NULL and without a default: what
// MySQL gives them, which is the zero of the type, the first label of an ENUM, and for dates the epoch, as the connector sends
// MySQL's zero date. It reports false if there is no such value.
func pgImplicit(source, t schema.Type) (string, bool) {
	switch t.Kind {
	case schema.Int16, schema.Int32, schema.Int64, schema.Decimal, schema.Float32, schema.Float64:
		return "0", true
	case schema.Bool:
		return "false", true
	case schema.Varchar, schema.Text:
		if source.Kind == schema.Enum && len(source.Values) > 0 {
			return pgLiteral(source.Values[0]), true
		}
		return "''", true
	case schema.Bytes:
		return `''`, true
	case schema.Enum:
		label, ok := firstLabel(source, t)
		return pgLiteral(label), ok
	case schema.Other: // a SET's members
		return "'{}'", isTextArray(t) && source.Kind == schema.Set
	case schema.Date:
		return "'1970-01-01'", true
	case schema.Timestamp:
		return "'1970-01-01 00:00:00'", true
	case schema.TimestampTZ:
		return "'1970-01-01 00:00:00+00'", true
	case schema.Interval, schema.TimeOfDay:
		return "'00:00:00'", true
	case schema.Bit:
		return fmt.Sprintf("'%s'", strings.Repeat("0", t.Length)), true
	case schema.JSON, schema.JSONB:
		return "'null'", true
	case schema.UUID:
		return "'00000000-0000-0000-0000-000000000000'", true
	}
	return "", false
}

// Implicit implements Implier: it is what pgImplicit says, encoded.
func (Postgres) Implicit(source, t schema.Type) []byte {
	if _, ok := pgImplicit(source, t); !ok {
		return nil
	}
	day := int64(-epochDays) // of PostgreSQL's calendar
	switch t.Kind {
	case schema.Bool:
		return make([]byte, 1)
	case schema.Int16:
		return make([]byte, 2)
	case schema.Int32, schema.Float32:
		return make([]byte, 4)
	case schema.Int64, schema.Float64, schema.Decimal, schema.TimeOfDay:
		return make([]byte, 8)
	case schema.Interval, schema.UUID:
		return make([]byte, 16)
	case schema.Date:
		return binary.BigEndian.AppendUint32(nil, uint32(day))
	case schema.Timestamp, schema.TimestampTZ:
		return binary.BigEndian.AppendUint64(nil, uint64(day*24*3600*1_000_000))
	case schema.Bit:
		return append(binary.BigEndian.AppendUint32(nil, uint32(t.Length)), make([]byte, (t.Length+7)/8)...)
	case schema.JSON:
		return []byte("null")
	case schema.JSONB:
		return append([]byte{jsonbVersion}, "null"...)
	}
	if isTextArray(t) {
		return []byte("{}")
	}
	label, _ := firstLabel(source, t) // of another column it is the empty text
	return append([]byte{}, label...)
}

// firstLabel is the source's first label of an ENUM, or an enum type's.
func firstLabel(source, t schema.Type) (string, bool) {
	if source.Kind != schema.Enum || len(source.Values) == 0 {
		source = t
	}
	if source.Kind != schema.Enum || len(source.Values) == 0 {
		return "", false
	}
	return source.Values[0], true
}
