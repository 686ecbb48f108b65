package sqlgen

import (
	"errors"
	"strconv"
	"strings"
	"unicode/utf8"

	"replicator/debezium"
	"replicator/schema"
)

// jsonbVersion is the first byte of jsonb's binary form; the text follows it (jsonb_recv in jsonb.c).
const jsonbVersion = 1

// json encodes for json, which is text as it is, and for jsonb.
func (e *pgEncoder) json() Encoder {
	switch e.m.sense {
	case senseJSON, senseText, senseAny, senseArray, senseMap, senseStruct, senseInt, senseFloat, senseBool:
	default:
		return nil
	}
	binary := e.column.Type.Kind == schema.JSONB
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		if binary {
			dst = append(dst, jsonbVersion)
		}
		if v.Kind != debezium.StringValue {
			return e.appendJSON(dst, v, 0)
		}
		if binary {
			return e.appendJSONB(dst, v.Text)
		}
		return e.appendClean(dst, v.Text)
	}
}

var (
	errJSONNul       = errors.New(`the JSON holds the character U+0000, which jsonb cannot store; a json column can, or schema.types.nul can be set to strip or replace`)
	errJSONSurrogate = errors.New(`the JSON holds half of a surrogate pair (\ud800 to \udfff), which jsonb cannot store`)
)

// appendJSONB appends the text of a JSON document for jsonb, which refuses two escapes that JSON allows.
func (e *pgEncoder) appendJSONB(dst []byte, s string) ([]byte, error) {
	if strings.IndexByte(s, 0) >= 0 {
		return dst, &ValueError{Class: Unstorable, Err: errJSONNul}
	}
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 || i+1 >= len(s) {
			return append(dst, s...), nil
		}
		n := 2 // of the escape
		if s[i+1] == 'u' {
			var instead string
			var err error
			if n, instead, err = e.unicodeEscape(s[i:]); err != nil {
				return dst, err
			}
			if n < 0 { // U+0000
				e.changed()
				dst = append(append(dst, s[:i]...), instead...)
				s = s[i-n:]
				continue
			}
		}
		dst, s = append(dst, s[:i+n]...), s[i+n:]
	}
}

// unicodeEscape looks at \uXXXX at the start of s. It returns the escape's length, with its other half; negative,
// with what to write instead, for U+0000 where the options let it be changed. What is no escape is left to the server
// to refuse.
func (e *pgEncoder) unicodeEscape(s string) (n int, instead string, err error) {
	c, ok := hex4(s)
	switch {
	case !ok:
		return 2, "", nil
	case c == 0:
		switch e.options.Nul {
		case "strip":
			return -6, "", nil
		case "replace":
			return -6, "\uFFFD", nil
		}
		return 0, "", &ValueError{Class: Unstorable, Err: errJSONNul}
	case c >= 0xD800 && c < 0xDC00:
		if low, ok := hex4(s[6:]); ok && low >= 0xDC00 && low < 0xE000 {
			return 12, "", nil
		}
		return 0, "", &ValueError{Class: Unstorable, Err: errJSONSurrogate}
	case c >= 0xDC00 && c < 0xE000:
		return 0, "", &ValueError{Class: Unstorable, Err: errJSONSurrogate}
	}
	return 6, "", nil
}

// hex4 reads the escape \uXXXX at the start of s.
func hex4(s string) (uint64, bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	c, err := strconv.ParseUint(s[2:6], 16, 16)
	return c, err == nil
}

// appendJSONText writes a value as JSON into a column of text.
func (e *encoding) appendJSONText(dst []byte, v *debezium.Value) ([]byte, error) {
	if v.Kind == debezium.StringValue {
		return e.appendClean(dst, v.Text)
	}
	return e.appendJSON(dst, v, 0)
}

// maxJSONDepth bounds the nesting of a value; decoders have a bound of their own.
const maxJSONDepth = 1000

// appendJSON writes a value as it was sent, as JSON.
func (e *encoding) appendJSON(dst []byte, v *debezium.Value, depth int) ([]byte, error) {
	switch v.Kind {
	case debezium.Absent, debezium.Null:
		return append(dst, "null"...), nil
	case debezium.BoolValue:
		return appendBool(dst, v)
	case debezium.IntValue:
		return strconv.AppendInt(dst, v.Num, 10), nil
	case debezium.NumberValue:
		if _, special := specialDecimal(v.Text); special {
			return dst, &ValueError{Class: Unstorable, Err: errors.New("JSON has no NaN or infinity")}
		}
		return append(dst, v.Text...), nil
	case debezium.StringValue:
		return e.appendJSONString(dst, v.Text)
	case debezium.BytesValue:
		return append(appendBase64(append(dst, '"'), v.Text), '"'), nil
	}
	if v.Kind != debezium.ListValue || v.List == nil {
		return dst, wrongKind()
	}
	if depth >= maxJSONDepth {
		return dst, invalid("the value is nested more than %d deep", maxJSONDepth)
	}
	open, end := byte('['), byte(']')
	if v.List.Names != nil {
		open, end = '{', '}'
	}
	dst = append(dst, open)
	for i := range v.List.Values {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if open == '{' {
			if i >= len(v.List.Names) {
				return dst, wrongKind()
			}
			if dst, err = e.appendJSONString(dst, v.List.Names[i]); err != nil {
				return dst, err
			}
			dst = append(dst, ':')
		}
		if dst, err = e.appendJSON(dst, &v.List.Values[i], depth+1); err != nil {
			return dst, err
		}
	}
	return append(dst, end), nil
}

// appendJSONString quotes s. U+0000 is left as its escape where the column is text or json, which can hold that.
func (e *encoding) appendJSONString(dst []byte, s string) ([]byte, error) {
	const hexDigits = "0123456789abcdef"
	if e.column.Type.Kind == schema.JSONB {
		clean, err := e.appendClean(nil, s)
		if err != nil {
			return dst, &ValueError{Class: Unstorable, Err: errJSONNul}
		}
		s = string(clean)
	}
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"'), nil
}
