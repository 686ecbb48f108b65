package sqlgen

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"replicator/debezium"
	"replicator/schema"
)

// jsonEncoder makes the encoder of one field.
type jsonEncoder struct {
	encoding
	text []byte // used again for each value that is written as a text
}

// appender returns how values are written: every value that can be sent has a form in JSON.
func (e *jsonEncoder) appender() appender {
	switch e.m.sense {
	case senseBool:
		return appendBool
	case senseInt, senseUint64:
		number := decimalOf(e.m, e.field)
		return func(dst []byte, v *debezium.Value) ([]byte, error) { return appendDecimal(dst, v, number) }
	case senseFloat:
		return e.appendFloat
	case senseDecimal:
		return e.quoted(e.decimal())
	case senseBits:
		return e.quoted(e.appendBitText)
	case senseBytes:
		return e.appendBase64
	case senseEnum:
		return e.quoted(e.appendLabel)
	case senseJSON:
		return e.appendDocument
	case senseUUID:
		return e.quoted(e.appendUUID)
	case senseDate:
		return e.quoted(e.appendDate(&e.m))
	case senseDatetime:
		return e.quoted(isoDatetime(e.appendDatetime(&e.m)))
	case senseTime, senseInterval:
		return e.quoted(e.appendDuration(&e.m))
	case senseArray:
		return e.array()
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) { return e.appendJSON(dst, v, 0) }
}

// quoted writes what another appender writes as a text of JSON.
func (e *jsonEncoder) quoted(write appender) appender {
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		var err error
		if e.text, err = write(e.text[:0], v); err != nil {
			return dst, err
		}
		return e.appendJSONString(dst, string(e.text))
	}
}

// decimal writes digits, with as many behind the point as the column's type says.
func (e *jsonEncoder) decimal() appender {
	number := decimalOf(e.m, e.field)
	precision, scale := 0, 0
	if t := e.column.Type; t.Kind == schema.Decimal && t.Scale >= 0 {
		precision, scale = t.Length, t.Scale
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		d, err := number(v)
		if err == nil && d.special == 0 {
			d, err = d.fit(precision, scale)
		}
		if err != nil {
			return dst, err
		}
		s, err := d.text()
		return append(dst, s...), err
	}
}

// appendFloat writes equal numbers alike. What JSON has no number for is a text.
func (e *jsonEncoder) appendFloat(dst []byte, v *debezium.Value) ([]byte, error) {
	x, err := e.parseFloat(v, 64)
	switch {
	case err != nil:
		return dst, err
	case math.IsNaN(x):
		return append(dst, `"NaN"`...), nil
	case math.IsInf(x, 1):
		return append(dst, `"Infinity"`...), nil
	case math.IsInf(x, -1):
		return append(dst, `"-Infinity"`...), nil
	case x == 0:
		return append(dst, '0'), nil // also a negative one
	}
	return strconv.AppendFloat(dst, x, 'g', -1, 64), nil
}

func (e *jsonEncoder) appendBase64(dst []byte, v *debezium.Value) ([]byte, error) {
	b, err := e.appendBytes(e.text[:0], v)
	if err != nil {
		return dst, err
	}
	e.text = b
	return append(appendBase64(append(dst, '"'), string(b)), '"'), nil
}

// appendDocument writes a JSON document as it is. A source that sends what is none has an unknown kind of text there.
func (e *jsonEncoder) appendDocument(dst []byte, v *debezium.Value) ([]byte, error) {
	if v.Kind != debezium.StringValue {
		return e.appendJSON(dst, v, 0)
	}
	if !json.Valid([]byte(v.Text)) {
		return dst, invalid("the text is not a JSON document, as its column's type says")
	}
	return append(dst, v.Text...), nil
}

func (e *jsonEncoder) appendUUID(dst []byte, v *debezium.Value) ([]byte, error) {
	if v.Kind != debezium.StringValue {
		return dst, wrongKind()
	}
	if out, ok := appendUUIDText(dst, v.Text); ok {
		return out, nil
	}
	return append(dst, v.Text...), nil
}

// isoDatetime puts ISO 8601's T between a date and a time.
func isoDatetime(write appender) appender {
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		from := len(dst)
		dst, err := write(dst, v)
		if i := bytes.IndexByte(dst[from:], ' '); err == nil && i >= 0 && v.Kind == debezium.IntValue {
			dst[from+i] = 'T'
		}
		return dst, err
	}
}

// array writes a list of values of one meaning.
func (e *jsonEncoder) array() appender {
	elem := &jsonEncoder{encoding: encoding{field: e.m.item, m: *e.m.items, table: e.table, column: elementOf(e.column), options: e.options, nul: true}}
	item := elem.appender()
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		if v.Kind != debezium.ListValue || v.List == nil || v.List.Names != nil {
			return e.appendJSON(dst, v, 0)
		}
		dst = append(dst, '[')
		for i := range v.List.Values {
			if i > 0 {
				dst = append(dst, ',')
			}
			x := &v.List.Values[i]
			if x.Kind <= debezium.Null {
				dst = append(dst, "null"...)
				continue
			}
			var err error
			if dst, err = item(dst, x); err != nil {
				return dst, err
			}
		}
		return append(dst, ']'), nil
	}
}
