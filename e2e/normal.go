package e2e

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
)

// Value is one column's value in a text that does not depend on which database it was read from.
type Value struct {
	Text string
	Null bool
}

var null = Value{Null: true}

// SelectExpression is how a column is to be read from MySQL so that its client prints every value without loss: text as
// hexadecimal digits of its UTF-8, which keeps tabs, line ends and NUL apart from the output's own; FLOAT as the double it is
// exactly, because the server prints six digits of it.
func (c Column) SelectExpression() string {
	name := "`" + strings.ReplaceAll(c.Name, "`", "``") + "`"
	switch kindOf(c.Type) {
	case text, document:
		return "HEX(CONVERT(" + name + " USING utf8mb4))"
	case float:
		return "CAST(" + name + " AS DOUBLE)"
	default:
		return name
	}
}

// FromMySQL is the value that MySQL's client printed for SelectExpression, with --binary-as-hex.
func (c Column) FromMySQL(s string) (Value, error) {
	switch kindOf(c.Type) {
	case text, document:
		b, err := hex.DecodeString(s)
		if err != nil {
			return Value{}, fmt.Errorf("text in hexadecimal: %w", err)
		}
		if s = string(b); kindOf(c.Type) == document {
			return exact(canonicalJSON(s))
		}
		// PostgreSQL cannot hold NUL in text; the run sets schema.types.nul to strip.
		return Value{Text: strings.ReplaceAll(s, "\x00", "")}, nil
	case date:
		if strings.HasPrefix(s, "0000-00-00") { // not a day of any calendar; Debezium sends null for it
			return null, nil
		}
		return Value{Text: trimFraction(s)}, nil
	case zoned:
		if strings.HasPrefix(s, "0000-00-00") {
			return null, nil
		}
		return Value{Text: trimFraction(s) + "+00"}, nil // the server and so the client's session are in UTC
	case year:
		if s == "0000" { // Debezium has no such year: its snapshot sends 2000, and nothing behind it can tell
			s = "2000"
		}
		return Value{Text: s}, nil
	case binaryString, bits, shape, vector:
		digits, ok := strings.CutPrefix(s, "0x")
		if !ok {
			return Value{}, fmt.Errorf("%q is not hexadecimal as the client prints it", s)
		}
		b, err := hex.DecodeString(digits)
		if err != nil {
			return Value{}, fmt.Errorf("bytes in hexadecimal: %w", err)
		}
		return c.fromMySQLBytes(b)
	default:
		return c.fromEither(s)
	}
}

func (c Column) fromMySQLBytes(b []byte) (Value, error) {
	switch kindOf(c.Type) {
	case bits:
		n, err := c.width()
		if err != nil {
			return Value{}, err
		}
		all := new(big.Int).SetBytes(b).Text(2)
		return Value{Text: strings.Repeat("0", max(0, n-len(all))) + all}, nil
	case shape: // four bytes of spatial reference, then standard WKB
		if len(b) < 4 {
			return Value{}, fmt.Errorf("geometry of %d bytes", len(b))
		}
		return Value{Text: fmt.Sprintf("srid %d wkb %x", binary.LittleEndian.Uint32(b), b[4:])}, nil
	case vector:
		if len(b)%4 != 0 {
			return Value{}, fmt.Errorf("vector of %d bytes", len(b))
		}
		var out []string
		for ; len(b) > 0; b = b[4:] {
			f := math.Float32frombits(binary.LittleEndian.Uint32(b))
			out = append(out, strconv.FormatFloat(float64(f), 'g', -1, 32))
		}
		return Value{Text: strings.Join(out, " ")}, nil
	default:
		return Value{Text: hex.EncodeToString(b)}, nil
	}
}

// FromPostgres is the value that PostgreSQL printed for column::text, with time zone UTC, DateStyle ISO, IntervalStyle postgres.
func (c Column) FromPostgres(s string) (Value, error) {
	switch kindOf(c.Type) {
	case text:
		return Value{Text: s}, nil
	case document:
		return exact(canonicalJSON(s))
	case date, zoned:
		return Value{Text: s}, nil // PostgreSQL prints no trailing zeros
	case bits:
		return Value{Text: bitOfBoolean(s)}, nil
	case binaryString:
		b, err := bytea(s)
		return Value{Text: hex.EncodeToString(b)}, err
	case shape:
		b, err := bytea(s)
		if err != nil {
			return Value{}, err
		}
		return exact(fromEWKB(b))
	case vector:
		return exact(fromArray(s))
	default:
		return c.fromEither(s)
	}
}

// fromEither reads what both databases print in nearly the same way.
func (c Column) fromEither(s string) (Value, error) {
	switch kindOf(c.Type) {
	case integer: // TINYINT(1) may be a boolean in the target
		return Value{Text: bitOfBoolean(s)}, nil
	case year, decimal: // a decimal's scale is part of its value
		return Value{Text: s}, nil
	case float:
		f, err := strconv.ParseFloat(s, 32)
		return Value{Text: strconv.FormatFloat(f, 'g', -1, 32)}, err
	case double:
		f, err := strconv.ParseFloat(s, 64)
		return Value{Text: strconv.FormatFloat(f, 'g', -1, 64)}, err
	case duration:
		return exact(microseconds(s))
	default:
		return Value{}, fmt.Errorf("no rule for MySQL's type %s", c.Type)
	}
}

func exact(s string, err error) (Value, error) { return Value{Text: s}, err }

type kind int

const (
	unknown kind = iota
	integer
	decimal
	float
	double
	bits
	year
	date // also a date with a time of day
	zoned
	duration
	text
	binaryString
	document
	shape
	vector
)

func kindOf(dataType string) kind {
	switch dataType {
	case "tinyint", "smallint", "mediumint", "int", "bigint":
		return integer
	case "decimal":
		return decimal
	case "float":
		return float
	case "double":
		return double
	case "bit":
		return bits
	case "year":
		return year
	case "date", "datetime":
		return date
	case "timestamp":
		return zoned
	case "time":
		return duration
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set":
		return text
	case "binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob":
		return binaryString
	case "json":
		return document
	case "geometry", "point", "linestring", "polygon", "multipoint", "multilinestring", "multipolygon", "geomcollection":
		return shape
	case "vector":
		return vector
	default:
		return unknown
	}
}

func (c Column) width() (int, error) {
	n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimPrefix(c.FullType, "bit("), ")"))
	if err != nil || n < 1 || n > 64 {
		return 0, fmt.Errorf("%q is not bit(1) to bit(64)", c.FullType)
	}
	return n, nil
}

func bitOfBoolean(s string) string {
	switch s {
	case "true":
		return "1"
	case "false":
		return "0"
	default:
		return s
	}
}

func trimFraction(s string) string {
	if !strings.Contains(s, ".") {
		return s
	}
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

func bytea(s string) ([]byte, error) {
	digits, ok := strings.CutPrefix(s, `\x`)
	if !ok {
		return nil, fmt.Errorf("%q is not a bytea in hexadecimal", s)
	}
	return hex.DecodeString(digits)
}

var clock = regexp.MustCompile(`^(?:(-?\d+) days? ?)?(?:([-+]?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?)?$`)

// microseconds reads MySQL's TIME and PostgreSQL's interval: -838:59:59.5, 1 day 02:00:00.
func microseconds(s string) (string, error) {
	m := clock.FindStringSubmatch(s)
	if m == nil || s == "" {
		return "", fmt.Errorf("%q is not a time of at most days and microseconds", s)
	}
	var n [5]int64 // days, hours, minutes, seconds, microseconds
	for i, digits := range []string{m[1], m[3], m[4], m[5], (m[6] + "000000")[:6]} {
		if digits == "" {
			continue
		}
		var err error
		if n[i], err = strconv.ParseInt(digits, 10, 32); err != nil {
			return "", fmt.Errorf("time %q: %w", s, err)
		}
	}
	of := (n[1]*3600+n[2]*60+n[3])*1e6 + n[4]
	if m[2] == "-" {
		of = -of
	}
	return strconv.FormatInt(n[0]*86400*1e6+of, 10), nil
}

// fromEWKB reads PostGIS's extended WKB, in which a flag of the type announces a spatial reference.
func fromEWKB(b []byte) (string, error) {
	const hasReference = 0x20000000
	if len(b) < 5 || b[0] != 1 {
		return "", fmt.Errorf("%x is not little-endian EWKB", b)
	}
	shapeType, body, srid := binary.LittleEndian.Uint32(b[1:]), b[5:], uint32(0)
	if shapeType&hasReference != 0 {
		if len(body) < 4 {
			return "", fmt.Errorf("%x ends within its spatial reference", b)
		}
		srid, body = binary.LittleEndian.Uint32(body), body[4:]
	}
	wkb := binary.LittleEndian.AppendUint32([]byte{1}, shapeType&^hasReference)
	return fmt.Sprintf("srid %d wkb %x%x", srid, wkb, body), nil
}

// fromArray reads real[] and pgvector's vector.
func fromArray(s string) (string, error) {
	inner := strings.Trim(s, "{}[]")
	if inner == "" {
		return "", nil
	}
	var out []string
	for part := range strings.SplitSeq(inner, ",") {
		f, err := strconv.ParseFloat(part, 32)
		if err != nil {
			return "", fmt.Errorf("vector %q: %w", s, err)
		}
		out = append(out, strconv.FormatFloat(f, 'g', -1, 32))
	}
	return strings.Join(out, " "), nil
}

// canonicalJSON writes the members of objects in order, and each number as text of the exact fraction it is: 1.50 is 1.5, and
// 18446744073709551615 is not 18446744073709551616.
func canonicalJSON(s string) (string, error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return "", fmt.Errorf("JSON: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return "", errors.New("JSON: something follows the value")
	}
	out, err := json.Marshal(tagged(v)) // sorts the members
	return string(out), err
}

func tagged(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, ok := new(big.Rat).SetString(v.String()); ok {
			return "number " + r.RatString()
		}
	case string: // told apart from numbers
		return "text " + v
	case []any:
		for i := range v {
			v[i] = tagged(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = tagged(v[k])
		}
	}
	return v
}
