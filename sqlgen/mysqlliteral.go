package sqlgen

import (
	"encoding/hex"
	"strings"

	"replicator/schema"
)

// mysqlLiteral is how the values of a column are written as SQL. What is encoded is what stands in the literal: digits,
// text, raw bytes, or a date and time in MySQL's notation.
type mysqlLiteral uint8

const (
	literalText mysqlLiteral = iota
	literalNumber
	literalBytes
	literalDate // the temporal ones name their type, or a key would be compared as text
	literalTime
	literalTimestamp
)

func mysqlLiteralOf(t schema.Type) mysqlLiteral {
	switch t.Kind {
	case schema.Bool, schema.Int8, schema.Int16, schema.Int24, schema.Int32, schema.Int64,
		schema.Uint8, schema.Uint16, schema.Uint24, schema.Uint32, schema.Uint64,
		schema.Float32, schema.Float64, schema.Decimal, schema.Bit, schema.Year:
		return literalNumber
	case schema.Bytes, schema.Geometry, schema.Vector:
		return literalBytes
	case schema.Date:
		return literalDate
	case schema.Time:
		return literalTime
	case schema.Timestamp, schema.TimestampTZ:
		return literalTimestamp
	}
	return literalText
}

// append writes an encoded value.
func (l mysqlLiteral) append(dst, value []byte) []byte {
	switch l {
	case literalNumber:
		return append(dst, value...)
	case literalBytes:
		return appendMySQLHex(append(dst, 'X'), value)
	case literalDate:
		dst = append(dst, "DATE"...)
	case literalTime:
		dst = append(dst, "TIME"...)
	case literalTimestamp:
		dst = append(dst, "TIMESTAMP"...)
	}
	return appendMySQLText(dst, value)
}

// appendMySQLText quotes text. What a backslash means depends on the session's sql_mode, so text that has one is written
// in hexadecimal digits, as is text with a NUL, for tools that read a server's log.
func appendMySQLText(dst, value []byte) []byte {
	text := string(value)
	if strings.ContainsAny(text, "\\\x00") {
		return appendMySQLHex(append(dst, "_utf8mb4 X"...), value)
	}
	dst = append(dst, '\'')
	for {
		i := strings.IndexByte(text, '\'')
		if i < 0 {
			return append(append(dst, text...), '\'')
		}
		dst = append(append(dst, text[:i]...), "''"...)
		text = text[i+1:]
	}
}

func appendMySQLHex(dst, value []byte) []byte {
	dst = append(dst, '\'')
	dst = hex.AppendEncode(dst, value)
	return append(dst, '\'')
}

// mysqlLiteralBytes bounds what a literal adds to its value, which is written at most twice as long.
const mysqlLiteralBytes = len("_utf8mb4 X'', ")

// mysqlSize bounds the length of an encoded row's literals.
func mysqlSize(row []byte) int { return 2*len(row) + mysqlLiteralBytes*(len(row)/4+1) }
