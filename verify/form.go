package verify

import (
	"strconv"
	"strings"

	"replicator/schema"
)

// Form is a way to write the values of a column as text that both databases have in common.
type Form uint8

// The forms.
const (
	Native   Form = iota // as the database itself writes it
	Integer              // decimal digits
	Truth                // 0 or 1
	Decimal              // with all digits of the scale, which is the same on both sides
	Trimmed              // a decimal without zeros at the end of its fraction
	Float                // the shortest digits that are this double; 0 has no sign
	Bits                 // 0s and 1s, the highest first
	Date                 // 2006-01-02
	Instant              // 2006-01-02 15:04:05.000000, of instants in UTC
	Micros               // microseconds, of a duration or a time of day
	Text                 // UTF-8
	Blank                // UTF-8 without blanks at the end, which a blank-padded type does not keep
	Hex                  // of bytes
	Document             // JSON as PostgreSQL's jsonb writes it
	Verbatim             // JSON as it was written
	Shape                // hexadecimal digits of four bytes of the spatial reference's number, little-endian, and of the well-known binary
	Floats               // hexadecimal digits of 32-bit floating point numbers, little-endian
	Members              // the members of a SET, parted by commas, whether they are a text or an array
)

// family is what types that hold the same kind of values have in common.
type family uint8

const (
	otherFamily family = iota
	integerFamily
	boolFamily
	decimalFamily
	floatFamily
	bitFamily
	dateFamily
	instantFamily
	durationFamily
	textFamily
	bytesFamily
	jsonFamily
	shapeFamily
	vectorFamily
)

var families = map[schema.Kind]family{
	schema.Int8: integerFamily, schema.Int16: integerFamily, schema.Int24: integerFamily, schema.Int32: integerFamily, schema.Int64: integerFamily,
	schema.Uint8: integerFamily, schema.Uint16: integerFamily, schema.Uint24: integerFamily, schema.Uint32: integerFamily, schema.Uint64: integerFamily,
	schema.Year: integerFamily, schema.Bool: boolFamily, schema.Decimal: decimalFamily, schema.Float32: floatFamily, schema.Float64: floatFamily,
	schema.Bit: bitFamily, schema.VarBit: bitFamily, schema.Date: dateFamily, schema.Timestamp: instantFamily, schema.TimestampTZ: instantFamily,
	schema.Time: durationFamily, schema.TimeOfDay: durationFamily, schema.Interval: durationFamily,
	schema.Char: textFamily, schema.Varchar: textFamily, schema.Text: textFamily, schema.Enum: textFamily, schema.Set: textFamily,
	schema.Bytes: bytesFamily, schema.JSON: jsonFamily, schema.JSONB: jsonFamily, schema.Geometry: shapeFamily, schema.Vector: vectorFamily,
}

// forms are the forms of two types of one family.
var forms = map[family]Form{
	integerFamily: Integer, boolFamily: Truth, decimalFamily: Decimal, floatFamily: Float, bitFamily: Bits, dateFamily: Date, instantFamily: Instant,
	durationFamily: Micros, textFamily: Text, bytesFamily: Hex, jsonFamily: Document, shapeFamily: Shape, vectorFamily: Floats,
}

// formOf chooses the form of a column that is of type s at the source and t at the target. postgres says that both are PostgreSQL, which
// writes the values of one type in one way, also those that no other database has.
func formOf(s, t schema.Type, postgres bool) Form {
	a, b := families[s.Kind], families[t.Kind]
	switch {
	case s.Kind == schema.JSON && t.Kind == schema.JSON:
		return Verbatim
	case (a == jsonFamily || a == textFamily) && b == jsonFamily: // MariaDB's JSON is LONGTEXT
		return Document
	case s.Kind == schema.Char && a == b && postgres, t.Kind == schema.Char && a == b:
		return Blank
	case postgres && s.Kind == t.Kind && (a == dateFamily || a == instantFamily || a == durationFamily):
		return Native // infinity, and intervals of months
	case a == boolFamily || b == boolFamily:
		return Truth
	case a == decimalFamily && b == decimalFamily && (s.Scale != t.Scale || s.Length == 0 || t.Length == 0):
		return Trimmed
	case a == integerFamily && b == decimalFamily && t.Scale == 0 && t.Length > 0:
		return Integer
	case a == decimalFamily && b == integerFamily, a == integerFamily && b == decimalFamily:
		return Trimmed
	case s.Kind == schema.Set && t.Kind == schema.Other && strings.HasSuffix(t.Native, "[]"):
		return Members
	case a == shapeFamily && b == bytesFamily:
		return Shape
	case a == vectorFamily && b == otherFamily:
		return Floats
	case a == b:
		return forms[a]
	}
	return Native
}

// long says whether texts of the form have no bound that matters: their hashes are compared in their place.
func (f Form) long() bool {
	switch f {
	case Native, Text, Blank, Hex, Document, Verbatim, Shape, Floats, Members:
		return true
	}
	return false
}

// exact says whether equal values always have equal texts.
func (f Form) exact() bool { return f != Float && f != Document && f != Verbatim }

// equal says whether two texts of the form stand for the same value.
func (f Form) equal(a, b string) bool {
	if a == b {
		return true
	}
	switch f {
	case Float:
		x, errX := strconv.ParseFloat(a, 64)
		y, errY := strconv.ParseFloat(b, 64)
		return errX == nil && errY == nil && x == y
	case Document, Verbatim:
		return equalJSON(a, b)
	}
	return false
}

// ordered says whether keys of the two types have one order in both databases.
func ordered(s, t schema.Type) bool {
	return families[s.Kind] == integerFamily && s.Kind != schema.Year &&
		(families[t.Kind] == integerFamily || t.Kind == schema.Decimal && t.Scale == 0)
}
