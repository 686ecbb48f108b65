package sqlgen

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"replicator/debezium"
	"replicator/schema"
)

// appender appends a value as text.
type appender func(dst []byte, v *debezium.Value) ([]byte, error)

// text encodes for the text types.
func (e *pgEncoder) text() Encoder { return e.bounded(e.appender(&e.m)) }

// bounded encodes as write does, within the length of a column of text. A nil write is none.
func (e *encoding) bounded(write appender) Encoder {
	if write == nil {
		return nil
	}
	t := e.column.Type
	switch {
	case t.Kind == schema.Char:
		return e.padded(write)
	case t.Kind == schema.Varchar && t.Length > 0:
		return func(dst []byte, v *debezium.Value) ([]byte, error) {
			from := len(dst)
			dst, err := write(dst, v)
			if err == nil {
				err = checkLength(dst[from:], t.Length)
			}
			return dst, err
		}
	}
	return Encoder(write)
}

// padded encodes for character(n): the blanks at the end have no meaning there, and the server adds them.
func (e *encoding) padded(write appender) Encoder {
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		from := len(dst)
		dst, err := write(dst, v)
		if err != nil {
			return dst, err
		}
		for len(dst) > from && dst[len(dst)-1] == ' ' {
			dst = dst[:len(dst)-1]
		}
		if n := e.column.Type.Length; n > 0 {
			err = checkLength(dst[from:], n)
		}
		return dst, err
	}
}

// checkLength counts characters. PostgreSQL itself drops blanks that are too many without a word.
func checkLength(s []byte, n int) error {
	if len(s) <= n {
		return nil
	}
	if got := utf8.RuneCount(s); got > n {
		return &ValueError{Class: TooLarge, Err: errors.New("the text has " + strconv.Itoa(got) + " characters, and the column holds " + strconv.Itoa(n))}
	}
	return nil
}

// plain says whether the column is one of text; every other one that is written as text gets the type's own notation.
func (e *pgEncoder) plain() bool {
	switch e.column.Type.Kind {
	case schema.Text, schema.Varchar, schema.Char:
		return true
	}
	return false
}

// appender returns how values of m are written as text, or nil.
func (e *pgEncoder) appender(m *meaning) appender {
	switch m.sense {
	case senseAny:
		return e.appendAny
	case senseBool:
		return appendBool
	case senseInt, senseUint64, senseDecimal:
		number := decimalOf(*m, e.field)
		return func(dst []byte, v *debezium.Value) ([]byte, error) { return appendDecimal(dst, v, number) }
	case senseFloat:
		return appendNumber
	case senseJSON:
		if isNamed(e.column.Type.Native, "hstore") {
			return e.appendHstore
		}
		return e.appendString
	case senseText, senseUUID, senseInstant:
		if e.column.Type.Native == "money" {
			return appendNumber
		}
		return e.appendString
	case senseEnum:
		return e.appendLabel
	case senseBits:
		return e.appendBitText
	case senseBytes:
		if e.plain() {
			return nil
		}
		return e.appendHexBytes
	case senseDate:
		return e.appendDate(m)
	case senseDatetime:
		return e.appendDatetime(m)
	case senseTime, senseInterval:
		return e.appendDuration(m)
	case senseGeometry:
		if e.column.Type.Native == "point" {
			return appendPoint
		}
		return appendHexEWKB
	case senseArray:
		return e.array(m)
	case senseMap, senseStruct:
		if isNamed(e.column.Type.Native, "hstore") {
			return e.appendHstore
		}
		return e.appendJSONText
	}
	return nil
}

// isNamed says whether native is the extension's type name, in whatever schema and with whatever modifiers.
func isNamed(native, name string) bool {
	native, _, _ = strings.Cut(native, "(")
	return native[strings.LastIndexByte(native, '.')+1:] == name
}

func appendBool(dst []byte, v *debezium.Value) ([]byte, error) {
	switch {
	case v.Kind != debezium.BoolValue && v.Kind != debezium.IntValue:
		return dst, wrongKind()
	case v.Num == 0:
		return append(dst, "false"...), nil
	}
	return append(dst, "true"...), nil
}

func appendDecimal(dst []byte, v *debezium.Value, number func(*debezium.Value) (decimal, error)) ([]byte, error) {
	d, err := number(v)
	if err != nil {
		return dst, err
	}
	s, err := d.text()
	return append(dst, s...), err
}

// appendNumber writes a floating-point number in the digits that it was sent in.
func appendNumber(dst []byte, v *debezium.Value) ([]byte, error) {
	switch v.Kind {
	case debezium.IntValue:
		return strconv.AppendInt(dst, v.Num, 10), nil
	case debezium.NumberValue:
		return append(dst, v.Text...), nil
	case debezium.StringValue:
		if isNumber(v.Text) {
			return append(dst, v.Text...), nil
		}
		return dst, invalid("the text is not a number")
	}
	return dst, wrongKind()
}

func (e *pgEncoder) appendString(dst []byte, v *debezium.Value) ([]byte, error) {
	switch {
	case v.Kind == debezium.StringValue:
		return e.appendClean(dst, v.Text)
	case e.field.Type == debezium.String:
		return dst, wrongKind()
	}
	return e.appendAny(dst, v)
}

// appendAny writes a value whose type nothing tells.
func (e *pgEncoder) appendAny(dst []byte, v *debezium.Value) ([]byte, error) {
	switch v.Kind {
	case debezium.StringValue:
		return e.appendClean(dst, v.Text)
	case debezium.IntValue:
		return strconv.AppendInt(dst, v.Num, 10), nil
	case debezium.NumberValue:
		return append(dst, v.Text...), nil
	case debezium.BoolValue:
		return appendBool(dst, v)
	case debezium.ListValue:
		switch {
		case v.List != nil && v.List.Names == nil && !e.plain():
			return e.array(&meaning{sense: senseArray, items: &meaning{}})(dst, v)
		case isNamed(e.column.Type.Native, "hstore"):
			return e.appendHstore(dst, v)
		case e.column.Type.Native == "point":
			return appendPoint(dst, v)
		}
		return e.appendJSONText(dst, v)
	}
	return dst, wrongKind()
}

var errNUL = errors.New("the text holds the character U+0000, which PostgreSQL cannot store; schema.types.nul can be set to strip or replace")

// appendClean appends text, without the NUL where the dialect's text cannot hold it.
func (e *encoding) appendClean(dst []byte, s string) ([]byte, error) {
	if e.nul || strings.IndexByte(s, 0) < 0 {
		return append(dst, s...), nil
	}
	instead := ""
	switch e.options.Nul {
	case "strip":
	case "replace":
		instead = "\uFFFD"
	default:
		return dst, &ValueError{Class: Unstorable, Err: errNUL}
	}
	e.changed()
	return append(dst, strings.ReplaceAll(s, "\x00", instead)...), nil
}

func (e *encoding) changed() {
	if e.options.Changed != nil {
		e.options.Changed(e.table, e.column.Name)
	}
}

// appendLabel writes an enum's label. Debezium's MySQL connector sends some before images with the comma in a label
// escaped as in the schema's list of labels.
func (e *encoding) appendLabel(dst []byte, v *debezium.Value) ([]byte, error) {
	if v.Kind != debezium.StringValue {
		return dst, wrongKind()
	}
	s := v.Text
	if strings.Contains(s, `\,`) && len(e.m.labels) > 0 && !slices.Contains(e.m.labels, s) {
		if plain := strings.ReplaceAll(s, `\,`, ","); slices.Contains(e.m.labels, plain) {
			s = plain
		}
	}
	return e.appendClean(dst, s)
}

func (e *encoding) appendBitText(dst []byte, v *debezium.Value) ([]byte, error) {
	b, err := littleEndian(v, maxBits)
	if err != nil {
		return dst, err
	}
	return appendBitDigits(dst, b, e.length(b, maxBits)), nil
}

// appendBitDigits writes n bits, the highest first.
func appendBitDigits(dst []byte, b bitString, n int) []byte {
	for i := n - 1; i >= 0; i-- {
		dst = append(dst, '0'+b.at(i))
	}
	return dst
}

// appendHexBytes writes bytes as PostgreSQL's bytea in text.
func (e *pgEncoder) appendHexBytes(dst []byte, v *debezium.Value) ([]byte, error) {
	b, err := e.appendBytes(nil, v)
	if err != nil {
		return dst, err
	}
	return hex.AppendEncode(append(dst, `\x`...), b), nil
}

// appendPoint writes io.debezium.data.geometry.Point as PostgreSQL's point.
func appendPoint(dst []byte, v *debezium.Value) ([]byte, error) {
	dst = append(dst, '(')
	for i, name := range []string{"x", "y"} {
		if i > 0 {
			dst = append(dst, ',')
		}
		n, ok := member(v, name)
		if !ok {
			return dst, invalid("the point is not a struct of x and y")
		}
		var err error
		if dst, err = appendNumber(dst, n); err != nil {
			return dst, err
		}
	}
	return append(dst, ')'), nil
}

// array returns how a list is written as the text of a PostgreSQL array, or of pgvector's vector.
func (e *pgEncoder) array(m *meaning) appender {
	if e.column.Type.Kind == schema.JSON || e.column.Type.Kind == schema.JSONB || e.plain() {
		return e.appendJSONText
	}
	nested := m.items.sense == senseArray
	elem := &pgEncoder{encoding{field: m.item, m: *m.items, table: e.table, column: elementOf(e.column), options: e.options}}
	if nested {
		elem.column = e.column
	}
	if elem.m.sense == senseAny {
		elem.m = meaningOfTarget(elem.column.Type)
	}
	item := elem.cast()
	if item == nil {
		return nil
	}
	list := &pgList{item: item, vector: e.column.Type.Kind == schema.Vector, nested: nested}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		if v.Kind == debezium.StringValue {
			return e.appendClean(dst, v.Text)
		}
		if v.Kind != debezium.ListValue || v.List == nil || v.List.Names != nil {
			return dst, wrongKind()
		}
		return list.append(dst, v.List.Values)
	}
}

// pgList is the text of an array, {1,"two",NULL}, or of pgvector's vector, [1,2].
type pgList struct {
	item   appender
	vector bool
	nested bool // the elements are lists themselves
}

func (l *pgList) append(dst []byte, values []debezium.Value) ([]byte, error) {
	open, end := byte('{'), byte('}')
	if l.vector {
		open, end = '[', ']'
	}
	dst = append(dst, open)
	var buf []byte
	for i := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		v := &values[i]
		switch {
		case v.Kind == debezium.Unavailable:
			return dst, &ValueError{Class: UnavailableValue, Err: errors.New("the source did not send an element of the array")}
		case v.Kind <= debezium.Null && l.vector:
			return dst, invalid("a vector has no NULL elements")
		case v.Kind <= debezium.Null:
			dst = append(dst, "NULL"...)
			continue
		}
		var err error
		if buf, err = l.item(buf[:0], v); err != nil {
			return dst, err
		}
		if l.bare(v, buf) {
			dst = append(dst, buf...)
		} else {
			dst = appendQuoted(dst, string(buf))
		}
	}
	return append(dst, end), nil
}

// bare says whether an element is written without quotes: a list in a list is, and a plain number.
func (l *pgList) bare(v *debezium.Value, text []byte) bool {
	return l.nested && v.Kind == debezium.ListValue && len(text) > 0 && text[0] == '{' || isNumber(string(text))
}

// appendQuoted writes an element of an array or an hstore between double quotes.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); i++ {
		if s[i] == '"' || s[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, s[i])
	}
	return append(dst, '"')
}

// appendHstore writes a map as hstore's text. Debezium sends an hstore as a map, or as the text of a JSON object
// (hstore.handling.mode=json).
func (e *pgEncoder) appendHstore(dst []byte, v *debezium.Value) ([]byte, error) {
	if v.Kind == debezium.StringValue {
		var members map[string]*string
		if err := json.Unmarshal([]byte(v.Text), &members); err != nil {
			return dst, invalid("the text is not a JSON object of strings, which an hstore is sent as")
		}
		list := debezium.Value{Kind: debezium.ListValue, List: &debezium.List{}}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			member := debezium.Value{Kind: debezium.Null}
			if s := members[name]; s != nil {
				member = debezium.Value{Kind: debezium.StringValue, Text: *s}
			}
			list.List.Names = append(list.List.Names, name)
			list.List.Values = append(list.List.Values, member)
		}
		v = &list
	}
	if v.Kind != debezium.ListValue || v.List == nil || len(v.List.Names) != len(v.List.Values) {
		return dst, wrongKind()
	}
	var buf []byte
	for i, name := range v.List.Names {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if buf, err = e.appendClean(buf[:0], name); err != nil {
			return dst, err
		}
		dst = append(appendQuoted(dst, string(buf)), "=>"...)
		x := &v.List.Values[i]
		if x.Kind <= debezium.Null {
			dst = append(dst, "NULL"...)
			continue
		}
		if buf, err = e.appendAny(buf[:0], x); err != nil {
			return dst, err
		}
		dst = appendQuoted(dst, string(buf))
	}
	return dst, nil
}
