package sqlgen

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"math/big"
	"strconv"
	"strings"
	"sync/atomic"

	"replicator/debezium"
	"replicator/schema"
)

// decimal is a number of any size: digits × 10^-scale, or one of the special values.
type decimal struct {
	special  byte // 0, or one of nan, '+' and '-' for the infinities
	negative bool
	digits   string // ASCII digits without leading zeros; empty is zero
	scale    int    // may be negative
}

const nan = 'N'

// maxDigits bounds the digits of a decimal, and with maxScale the memory that one takes: PostgreSQL's numeric has at
// most 131072 digits before the point and 16383 after it.
const (
	maxDigits = 131072 + 16383
	maxScale  = 16383
)

// parseDecimal reads digits with an optional sign, point and exponent, and the names of the special values in the
// spellings of JSON, Java and PostgreSQL. It reports false if s is none of these.
func parseDecimal(s string) (decimal, bool) {
	var d decimal
	rest := s
	if rest != "" && (rest[0] == '-' || rest[0] == '+') {
		d.negative = rest[0] == '-'
		rest = rest[1:]
	}
	whole := digitRun(rest)
	frac := ""
	rest = rest[len(whole):]
	if strings.HasPrefix(rest, ".") {
		frac = digitRun(rest[1:])
		rest = rest[1+len(frac):]
	}
	if len(whole)+len(frac) == 0 {
		return specialDecimal(s)
	}
	d.scale = len(frac)
	if rest != "" {
		if rest[0] != 'e' && rest[0] != 'E' {
			return d, false
		}
		exp, err := strconv.ParseInt(rest[1:], 10, 32)
		if err != nil {
			return d, false
		}
		d.scale -= int(exp)
	}
	if frac == "" {
		d.digits = strings.TrimLeft(whole, "0")
	} else {
		d.digits = strings.TrimLeft(whole+frac, "0")
	}
	return d, true
}

func digitRun(s string) string {
	for i := 0; i < len(s); i++ {
		if s[i] < '0' || s[i] > '9' {
			return s[:i]
		}
	}
	return s
}

func specialDecimal(s string) (decimal, bool) {
	switch strings.ToUpper(s) {
	case "NAN":
		return decimal{special: nan}, true
	case "INFINITY", "+INFINITY", "INF", "POSITIVE_INFINITY", "POSITIVE_INFINITIY": //nolint:misspell // as some versions of Debezium write it
		return decimal{special: '+'}, true
	case "-INFINITY", "-INF", "NEGATIVE_INFINITY", "NEGATIVE_INFINITIY": //nolint:misspell // the same
		return decimal{special: '-'}, true
	}
	return decimal{}, false
}

// twosComplement reads a big-endian two's complement integer, as Java's BigInteger.toByteArray writes it.
func twosComplement(b []byte, scale int) decimal {
	d := decimal{scale: scale}
	if len(b) <= 8 {
		var v int64
		if len(b) > 0 && b[0] >= 0x80 {
			v = -1
		}
		for _, x := range b {
			v = v<<8 | int64(x)
		}
		d.negative = v < 0
		u := uint64(v)
		if d.negative {
			u = -u
		}
		if u != 0 {
			d.digits = strconv.FormatUint(u, 10)
		}
		return d
	}
	v := new(big.Int).SetBytes(b)
	if b[0] >= 0x80 {
		v.Sub(v, new(big.Int).Lsh(big.NewInt(1), uint(len(b))*8))
	}
	d.negative = v.Sign() < 0
	if v.Sign() != 0 {
		d.digits = v.Abs(v).String()
	}
	return d
}

// fromBase64 decodes standard base64 with padding, strictly: what it accepts is the only text for these bytes.
func fromBase64(dst []byte, s string) ([]byte, bool) {
	from := len(dst)
	dst, err := base64.StdEncoding.Strict().AppendDecode(dst, []byte(s))
	// AppendDecode passes over line breaks, which nothing writes here.
	if err != nil || base64.StdEncoding.EncodedLen(len(dst)-from) != len(s) {
		return dst[:from], false
	}
	return dst, true
}

// maxDecimalBytes bounds a two's complement: what maxDigits decimal digits take.
const maxDecimalBytes = maxDigits*5/12 + 8

const errTooManyDigits = "the number has more digits than any numeric column holds"

func decimalBytes(v *debezium.Value, scale int) (decimal, error) {
	var buf [64]byte
	raw := buf[:0]
	switch v.Kind {
	case debezium.BytesValue:
		raw = append(raw, v.Text[:min(len(v.Text), maxDecimalBytes+1)]...)
	case debezium.StringValue:
		if len(v.Text) > maxDecimalBytes*2 {
			return decimal{}, outOfRange(errTooManyDigits)
		}
		var ok bool
		if raw, ok = fromBase64(raw, v.Text); !ok {
			return decimal{}, invalid("the decimal is not base64, as its schema says it is")
		}
	default:
		return decimal{}, wrongKind()
	}
	if len(raw) > maxDecimalBytes {
		return decimal{}, outOfRange(errTooManyDigits)
	}
	return twosComplement(raw, scale), nil
}

// decimalOf returns how values of m become decimals, or nil.
func decimalOf(m meaning, f debezium.Field) func(v *debezium.Value) (decimal, error) {
	switch m.sense {
	case senseInt, senseUint64, senseAny, senseFloat, senseBool:
		return func(v *debezium.Value) (decimal, error) { return decimalInt(v, m) }
	case senseDecimal:
		if f.Type == debezium.Bytes {
			return func(v *debezium.Value) (decimal, error) {
				if v.Kind == debezium.NumberValue || v.Kind == debezium.IntValue {
					return decimalInt(v, m)
				}
				return decimalBytes(v, m.scale)
			}
		}
		return func(v *debezium.Value) (decimal, error) { return decimalAny(v, m) }
	}
	return nil
}

func decimalInt(v *debezium.Value, m meaning) (decimal, error) {
	switch v.Kind {
	case debezium.IntValue, debezium.BoolValue:
		d := decimal{negative: v.Num < 0}
		u := uint64(v.Num)
		switch {
		case v.Num < 0 && m.sense == senseUint64:
			d.negative = false
		case v.Num < 0:
			u = -u
		}
		if u != 0 {
			d.digits = strconv.FormatUint(u, 10)
		}
		return d, nil
	case debezium.NumberValue:
		return decimalText(v.Text)
	case debezium.StringValue, debezium.BytesValue:
		if m.sense == senseUint64 { // bigint.unsigned.handling.mode=precise
			return decimalBytes(v, 0)
		}
		if m.sense == senseFloat {
			return decimalText(v.Text)
		}
	}
	return decimal{}, wrongKind()
}

func decimalText(s string) (decimal, error) {
	if len(s) > 2*maxDigits {
		return decimal{}, outOfRange(errTooManyDigits)
	}
	if d, ok := parseDecimal(s); ok {
		return d, nil
	}
	return decimal{}, invalid("the text is not a number")
}

// DecimalForm finds out how a source sends decimals that come without a schema: as digits, or as base64 of a two's complement
// (decimal.handling.mode: string, or precise, the default). Nearly every value shows it by itself. Only digits without a point, of
// which there are four, eight or so on, can be either: then what another value has shown last holds, and before that they are digits. It is
// safe for concurrent use.
type DecimalForm struct{ base64 atomic.Bool }

// encoded says whether s, of a column with so many digits after the point, is base64.
func (f *DecimalForm) encoded(s string, scale int) bool {
	if f == nil {
		f = new(DecimalForm)
	}
	_, special := specialDecimal(s)
	switch {
	case special, len(s)%4 != 0, strings.ContainsAny(s, ".-"):
		f.base64.Store(false)
	case scale > 0, digitRun(s) != s: // digits would have a point, and no exponent or plus
		f.base64.Store(true)
	}
	return f.base64.Load()
}

// decimalAny reads a decimal that comes as digits, as {scale, value}, or without a schema as base64 whose scale only a
// witness knows.
func decimalAny(v *debezium.Value, m meaning) (decimal, error) {
	switch v.Kind {
	case debezium.IntValue, debezium.NumberValue:
		return decimalInt(v, m)
	case debezium.ListValue:
		return decimalStruct(v)
	case debezium.BytesValue:
		if m.scale == unknownScale {
			return decimal{}, errScale()
		}
		return decimalBytes(v, m.scale)
	case debezium.StringValue:
		witnessed := m.scale != unknownScale && m.source != schema.Unknown && m.native == ""
		if witnessed && m.form.encoded(v.Text, m.scale) {
			return decimalBytes(v, m.scale)
		}
		if len(v.Text) <= 2*maxDigits {
			if d, ok := parseDecimal(v.Text); ok {
				return d, nil
			}
		}
		if witnessed {
			return decimalBytes(v, m.scale)
		}
		return decimal{}, errScale()
	}
	return decimal{}, wrongKind()
}

func errScale() error {
	return invalid("the value is not a decimal number in text; if it is a decimal in base64, its scale is unknown: set the connector's decimal.handling.mode=string or turn schemas on")
}

// decimalStruct reads io.debezium.data.VariableScaleDecimal: {scale, value}.
func decimalStruct(v *debezium.Value) (decimal, error) {
	scale, ok := member(v, "scale")
	value, ok2 := member(v, "value")
	if !ok || !ok2 || scale.Kind != debezium.IntValue {
		return decimal{}, invalid("the decimal is not a struct of scale and value")
	}
	if scale.Num > maxScale || scale.Num < -maxDigits {
		return decimal{}, outOfRange(errTooManyDigits)
	}
	return decimalBytes(value, int(scale.Num))
}

// member returns a struct's member.
func member(v *debezium.Value, name string) (*debezium.Value, bool) {
	if v.Kind != debezium.ListValue || v.List == nil {
		return nil, false
	}
	for i, n := range v.List.Names {
		if n == name && i < len(v.List.Values) {
			return &v.List.Values[i], true
		}
	}
	return nil, false
}

// fit makes d a value of numeric(precision, scale): it pads the scale, and refuses to round.
func (d decimal) fit(precision, scale int) (decimal, error) {
	if d.special == nan || d.special == 0 && precision == 0 {
		return d, nil
	}
	if d.special != 0 && precision > 0 {
		return d, &ValueError{Class: Unstorable, Err: errors.New("a numeric with a precision cannot hold infinity")}
	}
	if d.special != 0 {
		return d, nil
	}
	for d.scale > scale && strings.HasSuffix(d.digits, "0") {
		d.digits, d.scale = d.digits[:len(d.digits)-1], d.scale-1
	}
	if d.digits == "" {
		d.scale = scale
	}
	if d.scale > scale {
		return d, outOfRange("the number has %d digits after the point, and the column's type holds %d", d.scale, max(scale, 0))
	}
	if before := len(d.digits) - d.scale; before > precision-scale {
		return d, outOfRange("the number has %d digits before the point, and the column's type holds %d", before, precision-scale)
	}
	if n := scale - d.scale; n > 0 && d.digits != "" {
		d.digits, d.scale = d.digits+strings.Repeat("0", n), scale
	}
	d.scale = scale
	return d, nil
}

// appendNumeric appends PostgreSQL's binary numeric: digits in groups of four (numeric_recv in numeric.c).
func appendNumeric(dst []byte, d decimal) ([]byte, error) {
	const (
		positive, negative      = 0x0000, 0x4000
		notANumber              = 0xC000
		infinity, minusInfinity = 0xD000, 0xF000
	)
	switch d.special {
	case nan:
		return numericHeader(dst, 0, 0, notANumber, 0), nil
	case '+':
		return numericHeader(dst, 0, 0, infinity, 0), nil
	case '-':
		return numericHeader(dst, 0, 0, minusInfinity, 0), nil
	}
	if d.scale > maxScale || len(d.digits)-d.scale > 131072 || len(d.digits) > maxDigits {
		return dst, outOfRange(errTooManyDigits)
	}
	if d.digits == "" {
		return numericHeader(dst, 0, 0, positive, max(d.scale, 0)), nil
	}
	sign := positive
	if d.negative {
		sign = negative
	}
	// Position p counts digits from the point, to the left from 0: the first digit is at before-1. Groups are cut at
	// multiples of four.
	before := len(d.digits) - d.scale
	weight := floorDiv(before-1, 4)
	lead := (weight+1)*4 - before // zeros that fill the first group
	groups := (lead + len(d.digits) + 3) / 4
	at := len(dst)
	dst = numericHeader(dst, groups, weight, sign, max(d.scale, 0))
	last := 0
	for g := range groups {
		n := 0
		for i := g*4 - lead; i < g*4-lead+4; i++ {
			n *= 10
			if i >= 0 && i < len(d.digits) {
				n += int(d.digits[i] - '0')
			}
		}
		dst = binary.BigEndian.AppendUint16(dst, uint16(n))
		if n != 0 {
			last = g + 1
		}
	}
	binary.BigEndian.PutUint16(dst[at:], uint16(last))
	return dst[:at+8+2*last], nil
}

func numericHeader(dst []byte, groups, weight, sign, dscale int) []byte {
	dst = binary.BigEndian.AppendUint16(dst, uint16(groups))
	dst = binary.BigEndian.AppendUint16(dst, uint16(int16(weight)))
	dst = binary.BigEndian.AppendUint16(dst, uint16(sign))
	return binary.BigEndian.AppendUint16(dst, uint16(dscale))
}

func floorDiv(a, b int) int {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

// canonicalNumeric drops the display scale: appendNumeric writes no empty groups, so that is all that equal numbers
// differ in.
func canonicalNumeric(dst, value []byte) []byte {
	from := len(dst)
	dst = append(dst, value...)
	if len(value) >= 8 {
		dst[from+6], dst[from+7] = 0, 0
	}
	return dst
}

// text returns the number's digits with its point, as PostgreSQL writes them.
func (d decimal) text() (string, error) {
	switch d.special {
	case nan:
		return "NaN", nil
	case '+':
		return "Infinity", nil
	case '-':
		return "-Infinity", nil
	}
	if d.scale > maxScale || len(d.digits)-d.scale > 131072 {
		return "", outOfRange(errTooManyDigits)
	}
	digits := d.digits
	switch {
	case d.scale < 0 && digits != "":
		digits += strings.Repeat("0", -d.scale)
	case len(digits) <= max(d.scale, 0):
		digits = strings.Repeat("0", max(d.scale, 0)-len(digits)+1) + digits
	}
	if d.scale > 0 {
		digits = digits[:len(digits)-d.scale] + "." + digits[len(digits)-d.scale:]
	}
	if d.negative && d.digits != "" {
		digits = "-" + digits
	}
	return digits, nil
}
