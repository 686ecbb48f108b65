package sqlgen

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"math"
	"strconv"
	"strings"

	"replicator/debezium"
	"replicator/schema"
)

// Encoder implements Dialect. The value is PostgreSQL's binary form of the column's type where the type is built in,
// else text (see pgWire).
func (p Postgres) Encoder(f debezium.Field, witness schema.Type, t schema.Name, c schema.Column, o Options) (Encoder, error) {
	meant := c
	if base := c.Type.Base; base != nil {
		meant.Type = *base
	}
	m, err := meaningOf(f, witness, meant)
	if err != nil {
		return nil, err
	}
	m.form = o.Decimals
	e := pgEncoder{encoding{field: f, m: m, table: t, column: c, options: o}}
	if enc := e.encoder(); enc != nil {
		return enc, nil
	}
	return nil, unsupported(m, c)
}

// pgEncoder makes the encoder of one field for one column.
type pgEncoder struct{ encoding }

// encoder returns nil if there is no lossless way.
func (e *pgEncoder) encoder() Encoder {
	if (e.m.set || e.m.sense == senseEnum) && isArray(e.column.Type) {
		return e.members()
	}
	switch e.column.Type.Kind {
	case schema.Enum:
		return e.label()
	case schema.Bool:
		return e.boolean()
	case schema.Int16:
		return e.integer(2)
	case schema.Int32:
		return e.integer(4)
	case schema.Int64:
		return e.integer(8)
	case schema.Float32:
		return e.float(32)
	case schema.Float64:
		return e.float(64)
	case schema.Decimal:
		return e.numeric()
	case schema.Bytes:
		return e.bytea()
	case schema.Date:
		return e.date()
	case schema.Timestamp, schema.TimestampTZ:
		return e.timestamp()
	case schema.TimeOfDay:
		return e.timeOfDay()
	case schema.Interval:
		return e.interval()
	case schema.Bit, schema.VarBit:
		return e.bits()
	case schema.UUID:
		return e.uuid()
	case schema.JSON, schema.JSONB:
		return e.json()
	case schema.Text, schema.Varchar, schema.Char:
		return e.text()
	}
	return Encoder(e.cast())
}

// boolean takes booleans, and the integers that a connector may have made of one: MySQL's TINYINT(1) is true where it is
// not 0.
func (e *pgEncoder) boolean() Encoder {
	switch e.m.sense {
	case senseBits:
		return func(dst []byte, v *debezium.Value) ([]byte, error) {
			b, err := littleEndian(v, 1)
			if err != nil {
				return dst, err
			}
			return append(dst, b.at(0)), nil
		}
	case senseBool, senseInt, senseUint64, senseAny:
	default:
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		if v.Kind != debezium.BoolValue && v.Kind != debezium.IntValue {
			return dst, wrongKind()
		}
		if v.Num != 0 {
			return append(dst, 1), nil
		}
		return append(dst, 0), nil
	}
}

func (e *pgEncoder) integer(size int) Encoder {
	number := decimalOf(e.m, e.field)
	if number == nil || e.m.sense == senseFloat {
		return nil
	}
	bits := uint(size * 8)
	least, most := int64(-1)<<(bits-1), int64(1)<<(bits-1)-1
	if size == 8 {
		least, most = math.MinInt64, math.MaxInt64
	}
	wraps := e.m.sense == senseUint64
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		n := v.Num
		if v.Kind != debezium.IntValue && v.Kind != debezium.BoolValue || wraps {
			d, err := number(v)
			if err != nil {
				return dst, err
			}
			if n, err = d.int64(); err != nil {
				return dst, err
			}
		}
		if n < least || n > most {
			return dst, outOfRange("the number is outside of what %s holds", e.column.Type.Native)
		}
		switch size {
		case 2:
			return binary.BigEndian.AppendUint16(dst, uint16(n)), nil
		case 4:
			return binary.BigEndian.AppendUint32(dst, uint32(n)), nil
		}
		return binary.BigEndian.AppendUint64(dst, uint64(n)), nil
	}
}

// int64 returns d if it is a whole number of that size.
func (d decimal) int64() (int64, error) {
	if d.special != 0 {
		return 0, &ValueError{Class: Unstorable, Err: errors.New("the column's type has no NaN or infinity")}
	}
	d, err := d.fit(19, 0)
	if err != nil {
		return 0, err
	}
	s := d.digits
	if s == "" {
		return 0, nil
	}
	if d.negative {
		s = "-" + s
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 0, outOfRange("the number is outside of what 64 bits hold")
	}
	return n, nil
}

func (e *pgEncoder) numeric() Encoder {
	number := e.fitting()
	if number == nil {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		d, err := number(v)
		if err != nil {
			return dst, err
		}
		return appendNumeric(dst, d)
	}
}

// fitting returns how a decimal is read that the column holds exactly. nil: the values are no decimals.
func (e *pgEncoder) fitting() func(*debezium.Value) (decimal, error) {
	number := decimalOf(e.m, e.field)
	if number == nil {
		return nil
	}
	precision, scale := e.column.Type.Length, e.column.Type.Scale
	return func(v *debezium.Value) (decimal, error) {
		d, err := number(v)
		if err != nil {
			return d, err
		}
		return d.fit(precision, scale)
	}
}

// float takes floating-point numbers, and integers that it holds exactly. A double goes into a real if it is one that
// was widened on its way.
func (e *pgEncoder) float(bits int) Encoder {
	switch e.m.sense {
	case senseFloat, senseInt, senseUint64, senseAny:
	default:
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		x, err := e.parseFloat(v, bits)
		if err != nil {
			return dst, err
		}
		if bits == 32 {
			if x != x {
				return binary.BigEndian.AppendUint32(dst, 0x7FC00000), nil
			}
			return binary.BigEndian.AppendUint32(dst, math.Float32bits(float32(x))), nil
		}
		if x != x {
			return binary.BigEndian.AppendUint64(dst, 0x7FF8000000000000), nil
		}
		return binary.BigEndian.AppendUint64(dst, math.Float64bits(x)), nil
	}
}

func (e *encoding) parseFloat(v *debezium.Value, bits int) (float64, error) {
	switch v.Kind {
	case debezium.IntValue:
		n := v.Num
		x := float64(n)
		if bits == 32 {
			x = float64(float32(n))
		}
		if e.m.sense == senseUint64 && n < 0 {
			return 0, outOfRange("the number has more digits than the column's type holds")
		}
		// 2^63 is the float next to the largest int64, and no int64.
		if e.m.sense != senseFloat && (x == -math.MinInt64 || int64(x) != n) {
			return 0, outOfRange("the number has more digits than the column's type holds")
		}
		return x, nil
	case debezium.NumberValue, debezium.StringValue:
		d, ok := specialDecimal(v.Text)
		switch {
		case ok && d.special == nan:
			return math.NaN(), nil
		case ok && d.special == '+':
			return math.Inf(1), nil
		case ok:
			return math.Inf(-1), nil
		case len(v.Text) > 2000 || !isNumber(v.Text):
			return 0, invalid("the text is not a number")
		}
		x, err := strconv.ParseFloat(v.Text, bits)
		if err != nil {
			return 0, outOfRange("the number is outside of what %s holds", e.column.Type.Native)
		}
		if bits == 32 && e.m.double {
			return x, e.widened(v.Text, x)
		}
		return x, nil
	}
	return 0, wrongKind()
}

// isNumber keeps out what ParseFloat takes and JSON does not: hexadecimal, underscores, names.
func isNumber(s string) bool {
	_, ok := parseDecimal(s)
	return ok
}

// widened checks that the double in text is the real x, written out in full or in as few digits as x needs.
func (e *encoding) widened(text string, x float64) error {
	full, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return outOfRange("the number is outside of what double precision holds")
	}
	short, err := strconv.ParseFloat(strconv.FormatFloat(x, 'g', -1, 32), 64)
	if err == nil && (full == x || full == short) {
		return nil
	}
	return outOfRange("the number has more digits than real holds")
}

// canonicalFloat makes a negative zero positive; NaN is written in one form only.
func canonicalFloat(dst, value []byte) []byte {
	if len(value) > 0 && value[0] == 0x80 && strings.Trim(string(value[1:]), "\x00") == "" {
		dst = append(dst, 0)
		return append(dst, value[1:]...)
	}
	return append(dst, value...)
}

// bytea takes bytes, and text that encodes them as the options say. Another text is refused and not stored as it is: it
// is bytes in another mode of the connector, or not bytes.
func (e *pgEncoder) bytea() Encoder {
	switch e.m.sense {
	case senseBytes, senseAny, senseUUID:
	case senseGeometry:
		return func(dst []byte, v *debezium.Value) ([]byte, error) { return appendEWKB(dst, v) }
	default:
		return nil
	}
	return e.appendBytes
}

// appendBytes appends the bytes of a value of the field.
func (e *encoding) appendBytes(dst []byte, v *debezium.Value) ([]byte, error) {
	if v.Kind == debezium.StringValue && e.field.Type != debezium.Bytes {
		return appendBinary(dst, v.Text, e.options.Binary)
	}
	return appendBytes(dst, v)
}

// appendBinary appends the bytes that s stands for in a mode of the connector's option binary.handling.mode.
func appendBinary(dst []byte, s, mode string) ([]byte, error) {
	from := len(dst)
	var err error
	switch mode {
	case "hex":
		dst, err = hex.AppendDecode(dst, []byte(s))
	case "base64-url-safe":
		dst, err = base64.URLEncoding.Strict().AppendDecode(dst, []byte(s))
		if err == nil && base64.URLEncoding.EncodedLen(len(dst)-from) != len(s) { // line breaks are passed over
			err = base64.CorruptInputError(0)
		}
	default:
		var ok bool
		if dst, ok = fromBase64(dst, s); ok {
			return dst, nil
		}
		mode, err = "base64", base64.CorruptInputError(0)
	}
	if err != nil {
		return dst[:from], invalid("the text is not bytes in %s, as source.binary says; set it to the connector's binary.handling.mode", mode)
	}
	return dst, nil
}

// appendBytes appends the bytes of a value that a schema says is bytes, or that has them as they are.
func appendBytes(dst []byte, v *debezium.Value) ([]byte, error) {
	switch v.Kind {
	case debezium.BytesValue:
		return append(dst, v.Text...), nil
	case debezium.StringValue:
		out, ok := fromBase64(dst, v.Text)
		if !ok {
			return dst, invalid("the text is not base64, which bytes are sent in")
		}
		return out, nil
	}
	return dst, wrongKind()
}

func (e *pgEncoder) date() Encoder {
	days := daySource(e.m)
	if days == nil {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		n, err := days(v)
		return binary.BigEndian.AppendUint32(dst, uint32(int32(n))), err
	}
}

func (e *pgEncoder) timestamp() Encoder {
	micros := timestampSource(e.m, e.column, e.options)
	if micros == nil {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		n, err := micros(v)
		return binary.BigEndian.AppendUint64(dst, uint64(n)), err
	}
}

func (e *pgEncoder) timeOfDay() Encoder {
	if e.m.sense == senseInterval {
		return nil
	}
	micros := durationSource(e.m, clampScale(e.column.Type.Scale), e.options)
	if micros == nil {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		n, err := micros(v)
		if err == nil {
			err = withinDay(n)
		}
		return binary.BigEndian.AppendUint64(dst, uint64(n)), err
	}
}

func withinDay(micros int64) error {
	if micros < 0 || micros > dayMicros {
		return outOfRange("the time is not within a day; an interval column holds it (schema.types.time: interval)")
	}
	return nil
}

func (e *pgEncoder) interval() Encoder {
	micros := durationSource(e.m, clampScale(e.column.Type.Scale), e.options)
	if micros == nil {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		i, err := e.intervalOf(v, micros)
		dst = binary.BigEndian.AppendUint64(dst, uint64(i.micros))
		dst = binary.BigEndian.AppendUint32(dst, uint32(int32(i.days)))
		return binary.BigEndian.AppendUint32(dst, uint32(int32(i.months))), err
	}
}

// intervalOf reads an interval, or a duration by micros, with at most as many fractional digits as the column has.
func (e *pgEncoder) intervalOf(v *debezium.Value, micros func(*debezium.Value) (int64, error)) (i interval, err error) {
	if v.Kind != debezium.StringValue || !strings.HasPrefix(v.Text, "P") {
		i.micros, err = micros(v)
		return i, err
	}
	if i, err = parseInterval(v.Text); err == nil {
		err = checkDigits(i.micros, clampScale(e.column.Type.Scale))
	}
	return i, err
}

func (e *pgEncoder) uuid() Encoder {
	switch e.m.sense {
	case senseUUID, senseText, senseAny:
		return func(dst []byte, v *debezium.Value) ([]byte, error) {
			if v.Kind != debezium.StringValue {
				return dst, wrongKind()
			}
			out, ok := appendUUID(dst, v.Text)
			if !ok {
				return dst, invalid("the text is not a UUID")
			}
			return out, nil
		}
	case senseBytes:
		return func(dst []byte, v *debezium.Value) ([]byte, error) {
			from := len(dst)
			dst, err := e.appendBytes(dst, v)
			if err == nil && len(dst)-from != 16 {
				err = invalid("a UUID has 16 bytes, and the value %d", len(dst)-from)
			}
			return dst, err
		}
	}
	return nil
}

// appendUUID reads 32 hexadecimal digits, with dashes between bytes or none, in braces or not, as PostgreSQL does.
func appendUUID(dst []byte, s string) ([]byte, bool) {
	if strings.HasPrefix(s, "{") && strings.HasSuffix(s, "}") {
		s = s[1 : len(s)-1]
	}
	n := 0
	for len(s) >= 2 {
		if s[0] == '-' && n > 0 {
			s = s[1:]
			continue
		}
		b, err := strconv.ParseUint(s[:2], 16, 8)
		if err != nil || n == 16 {
			return dst, false
		}
		dst, s, n = append(dst, byte(b)), s[2:], n+1
	}
	return dst, n == 16 && s == ""
}
