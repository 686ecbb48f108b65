package sqlgen

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// canonicalJSON appends a JSON document so that documents which jsonb, or MySQL's JSON, holds to be equal are the same bytes: MySQL's
// connector writes what it reads in a snapshot with blanks, and what it reads in the binary log without. What is no JSON stays as it is.
func canonicalJSON(dst, doc []byte) []byte {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return append(dst, doc...)
	}
	out, err := json.Marshal(canonicalNumbers(v))
	if err != nil {
		return append(dst, doc...)
	}
	return append(dst, out...)
}

// canonicalJSONB is canonicalJSON for jsonb's binary form.
func canonicalJSONB(dst, value []byte) []byte {
	if len(value) == 0 {
		return dst
	}
	return canonicalJSON(append(dst, value[0]), value[1:])
}

// canonicalNumbers makes equal numbers in v the same text.
func canonicalNumbers(v any) any {
	switch x := v.(type) {
	case json.Number:
		d, ok := parseDecimal(x.String())
		if !ok {
			return x
		}
		digits := strings.TrimRight(d.digits, "0")
		if digits == "" {
			return json.Number("0")
		}
		exponent := len(d.digits) - len(digits) - d.scale
		if d.negative {
			digits = "-" + digits
		}
		return json.Number(digits + "E" + strconv.Itoa(exponent))
	case []any:
		for i := range x {
			x[i] = canonicalNumbers(x[i])
		}
	case map[string]any:
		for name := range x {
			x[name] = canonicalNumbers(x[name])
		}
	}
	return v
}
