package debezium

import (
	"cmp"
	"strconv"
	"strings"

	"replicator/schema"
)

// MySQLType is the type of a column of MySQL or MariaDB, by what the schema-change topic or the schema parameters
// __debezium.source.column.* say of it: its name ("BIGINT UNSIGNED", "DECIMAL"), the expression (what the name lacks
// is taken from it), length and scale, nil if not said, and the labels of ENUM and SET as SQL string literals. The
// length of TIME, DATETIME and TIMESTAMP is their fractional digits. A name that is not known gives schema.Other, no
// name at all schema.Unknown.
func MySQLType(typeName, typeExpression string, length, scale *int, enumValues []string) schema.Type {
	n := parseTypeName(typeName)
	full := parseTypeName(typeExpression)
	if n.base == "" {
		n = full
	}
	n.unsigned = n.unsigned || full.base == n.base && full.unsigned
	for _, from := range []mysqlName{n, full} {
		if length == nil {
			length, scale = from.length, cmp.Or(scale, from.scale)
		}
	}
	t := mysqlType(n, length, scale)
	t.Native = typeExpression
	if t.Native == "" {
		t.Native = typeName
	}
	if t.Kind == schema.Enum || t.Kind == schema.Set {
		t.Values = make([]string, len(enumValues))
		for i, v := range enumValues {
			t.Values[i] = strings.TrimRight(unquoteSQL(v), " ") // as MySQL has them; a statement may say otherwise
		}
	}
	return t
}

// given returns the number p, or otherwise if there is none.
func given(p *int, otherwise int) int {
	if p == nil || *p < 0 {
		return otherwise
	}
	return *p
}

// mysqlKinds are the types whose length and scale mean nothing, or only how wide clients print them.
var mysqlKinds = map[string][2]schema.Kind{ // signed, unsigned
	"SMALLINT": {schema.Int16, schema.Uint16}, "INT2": {schema.Int16, schema.Uint16},
	"MEDIUMINT": {schema.Int24, schema.Uint24}, "INT3": {schema.Int24, schema.Uint24}, "MIDDLEINT": {schema.Int24, schema.Uint24},
	"INT": {schema.Int32, schema.Uint32}, "INTEGER": {schema.Int32, schema.Uint32}, "INT4": {schema.Int32, schema.Uint32},
	"BIGINT": {schema.Int64, schema.Uint64}, "INT8": {schema.Int64, schema.Uint64}, "SERIAL": {schema.Uint64, schema.Uint64},
	"FLOAT4": {schema.Float32, schema.Float32}, "FLOAT8": {schema.Float64, schema.Float64}, "REAL": {schema.Float64, schema.Float64},
	"DOUBLE": {schema.Float64, schema.Float64}, "DOUBLE PRECISION": {schema.Float64, schema.Float64},
	"YEAR": {schema.Year, schema.Year}, "DATE": {schema.Date, schema.Date},
	"JSON": {schema.JSON, schema.JSON}, "UUID": {schema.UUID, schema.UUID}, "ENUM": {schema.Enum, schema.Enum}, "SET": {schema.Set, schema.Set},
	"TINYTEXT": {schema.Text, schema.Text}, "TEXT": {schema.Text, schema.Text}, "MEDIUMTEXT": {schema.Text, schema.Text}, "LONGTEXT": {schema.Text, schema.Text},
	"LONG": {schema.Text, schema.Text}, "LONG VARCHAR": {schema.Text, schema.Text}, "INET4": {schema.Text, schema.Text}, "INET6": {schema.Text, schema.Text},
	"TINYBLOB": {schema.Bytes, schema.Bytes}, "BLOB": {schema.Bytes, schema.Bytes}, "MEDIUMBLOB": {schema.Bytes, schema.Bytes}, "LONGBLOB": {schema.Bytes, schema.Bytes},
	"LONG VARBINARY": {schema.Bytes, schema.Bytes},
	"GEOMETRY":       {schema.Geometry, schema.Geometry}, "POINT": {schema.Geometry, schema.Geometry}, "LINESTRING": {schema.Geometry, schema.Geometry},
	"POLYGON": {schema.Geometry, schema.Geometry}, "MULTIPOINT": {schema.Geometry, schema.Geometry}, "MULTILINESTRING": {schema.Geometry, schema.Geometry},
	"MULTIPOLYGON": {schema.Geometry, schema.Geometry}, "GEOMETRYCOLLECTION": {schema.Geometry, schema.Geometry}, "GEOMCOLLECTION": {schema.Geometry, schema.Geometry},
}

func mysqlType(n mysqlName, length, scale *int) schema.Type {
	if kinds, ok := mysqlKinds[n.base]; ok {
		if n.unsigned {
			return schema.Type{Kind: kinds[1]}
		}
		return schema.Type{Kind: kinds[0]}
	}
	switch n.base {
	case "":
		return schema.Type{}
	case "BOOL", "BOOLEAN":
		return schema.Type{Kind: schema.Int8, Length: 1}
	case "TINYINT", "INT1":
		t := schema.Type{Kind: schema.Int8}
		if n.unsigned {
			t.Kind = schema.Uint8
		}
		if given(length, 0) == 1 { // by convention a boolean
			t.Length = 1
		}
		return t
	case "FLOAT":
		// FLOAT(p) is a double from 25 bits on; FLOAT(m,d) is not.
		if given(length, 0) > 24 && scale == nil {
			return schema.Type{Kind: schema.Float64}
		}
		return schema.Type{Kind: schema.Float32}
	case "DECIMAL", "DEC", "NUMERIC", "FIXED":
		return schema.Type{Kind: schema.Decimal, Length: given(length, 10), Scale: given(scale, 0)}
	case "BIT":
		return schema.Type{Kind: schema.Bit, Length: given(length, 1)}
	case "TIME":
		return schema.Type{Kind: schema.Time, Scale: given(length, 0)}
	case "DATETIME":
		return schema.Type{Kind: schema.Timestamp, Scale: given(length, 0)}
	case "TIMESTAMP":
		return schema.Type{Kind: schema.TimestampTZ, Scale: given(length, 0)}
	case "CHAR", "CHARACTER", "NCHAR", "NATIONAL CHAR", "NATIONAL CHARACTER":
		return schema.Type{Kind: schema.Char, Length: given(length, 1)}
	case "VARCHAR", "CHARACTER VARYING", "CHAR VARYING", "NVARCHAR", "NATIONAL VARCHAR", "NCHAR VARCHAR", "NCHAR VARYING",
		"NATIONAL CHAR VARYING", "NATIONAL CHARACTER VARYING":
		return schema.Type{Kind: schema.Varchar, Length: given(length, 0)}
	case "BINARY", "CHAR BYTE":
		return schema.Type{Kind: schema.Bytes, Length: given(length, 1)}
	case "VARBINARY":
		return schema.Type{Kind: schema.Bytes, Length: given(length, 0)}
	case "VECTOR":
		return schema.Type{Kind: schema.Vector, Length: given(length, 2048)}
	}
	return schema.Type{Kind: schema.Other}
}

// mysqlName is a type's name taken apart.
type mysqlName struct {
	base          string // upper case, one space between words, without attributes
	unsigned      bool
	length, scale *int // from parentheses
}

// parseTypeName takes names like "int(10) unsigned zerofill" apart.
func parseTypeName(s string) mysqlName {
	var n mysqlName
	head, rest, found := strings.Cut(s, "(")
	if found {
		args, tail, _ := strings.Cut(rest, ")")
		first, second, two := strings.Cut(args, ",")
		if v, err := strconv.Atoi(strings.TrimSpace(first)); err == nil {
			n.length = &v
		}
		if v, err := strconv.Atoi(strings.TrimSpace(second)); two && err == nil {
			n.scale = &v
		}
		if n.length != nil { // otherwise these are an ENUM's labels, which may hold anything
			head += " " + tail
		}
	}
	var words []string
	for _, w := range strings.Fields(strings.ToUpper(head)) {
		switch w {
		case "UNSIGNED", "ZEROFILL": // ZEROFILL implies UNSIGNED
			n.unsigned = true
		case "SIGNED":
		default:
			words = append(words, w)
		}
	}
	n.base = strings.Join(words, " ")
	return n
}

// unquoteSQL returns what a string literal of MySQL stands for; what is not quoted stands for itself.
func unquoteSQL(s string) string {
	if len(s) < 2 || s[0] != '\'' && s[0] != '"' || s[len(s)-1] != s[0] {
		return s
	}
	quote, body := s[0], s[1:len(s)-1]
	var b strings.Builder
	for i := 0; i < len(body); i++ {
		c := body[i]
		if i+1 < len(body) && (c == '\\' || c == quote && body[i+1] == quote) {
			i++
			if c == '\\' {
				c = mysqlEscape(body[i])
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}

// mysqlEscape is the byte that a backslash and c stand for in a literal.
func mysqlEscape(c byte) byte {
	switch c {
	case '0':
		return 0
	case 'b':
		return '\b'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'Z':
		return 26
	}
	return c
}
