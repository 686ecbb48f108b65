package sqlgen

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"replicator/debezium"
	"replicator/schema"
)

// Encoder implements Dialect. The value is what stands in the column's literal (see mysqlLiteral).
func (m MySQL) Encoder(f debezium.Field, witness schema.Type, t schema.Name, c schema.Column, o Options) (Encoder, error) {
	meant, err := meaningOf(f, witness, c)
	if err != nil {
		return nil, err
	}
	meant.form = o.Decimals
	e := mysqlEncoder{encoding{field: f, m: meant, table: t, column: c, options: o, nul: true}}
	if enc := e.encoder(); enc != nil {
		return enc, nil
	}
	return nil, unsupported(meant, c)
}

// mysqlEncoder makes the encoder of one field for one column.
type mysqlEncoder struct{ encoding }

// encoder returns nil if there is no lossless way.
func (e *mysqlEncoder) encoder() Encoder {
	t := e.column.Type
	switch r, ok := mysqlIntegers[t.Kind]; {
	case t.Kind == schema.Year:
		return e.year(r)
	case ok:
		return e.integer(r)
	}
	switch t.Kind {
	case schema.Float32:
		return e.float(32)
	case schema.Float64:
		return e.float(64)
	case schema.Decimal:
		return e.decimal()
	case schema.Bit:
		return e.bit()
	case schema.Bytes:
		return e.binary()
	case schema.Date:
		return e.date()
	case schema.Time:
		return e.time()
	case schema.Timestamp, schema.TimestampTZ:
		return e.timestamp()
	case schema.JSON:
		return e.json()
	case schema.Geometry:
		return e.geometry()
	case schema.Vector:
		return e.vector()
	case schema.UUID:
		return e.uuid()
	}
	return e.text()
}

// mysqlRange is the whole numbers that a type holds.
type mysqlRange struct {
	least int64
	most  uint64
}

var mysqlIntegers = map[schema.Kind]mysqlRange{
	schema.Int8: {math.MinInt8, math.MaxInt8}, schema.Uint8: {0, math.MaxUint8},
	schema.Int16: {math.MinInt16, math.MaxInt16}, schema.Uint16: {0, math.MaxUint16},
	schema.Int24: {-1 << 23, 1<<23 - 1}, schema.Uint24: {0, 1<<24 - 1},
	schema.Int32: {math.MinInt32, math.MaxInt32}, schema.Uint32: {0, math.MaxUint32},
	schema.Int64: {math.MinInt64, math.MaxInt64}, schema.Uint64: {0, math.MaxUint64},
	schema.Year: {0, 2155},
}

func (e *mysqlEncoder) integer(r mysqlRange) Encoder {
	number := decimalOf(e.m, e.field)
	if number == nil || e.m.sense == senseFloat {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		if v.Kind == debezium.IntValue && e.m.sense == senseInt && v.Num >= r.least && (v.Num < 0 || uint64(v.Num) <= r.most) {
			return strconv.AppendInt(dst, v.Num, 10), nil // as most are
		}
		d, err := number(v)
		if err != nil {
			return dst, err
		}
		if d.special != 0 {
			return dst, errNoSpecial()
		}
		if d, err = d.fit(20, 0); err != nil {
			return dst, err
		}
		u := uint64(0)
		if d.digits != "" {
			u, err = strconv.ParseUint(d.digits, 10, 64)
		}
		if err != nil || !d.negative && u > r.most || d.negative && u > -uint64(r.least) {
			return dst, outOfRange("the number is outside of what %s holds", e.column.Type.Native)
		}
		if d.negative && u != 0 {
			dst = append(dst, '-')
		}
		return strconv.AppendUint(dst, u, 10), nil
	}
}

// firstYear is the first that YEAR holds, but for 0. It takes a number below 100 for a year of these days.
const firstYear = 1901

func (e *mysqlEncoder) year(r mysqlRange) Encoder {
	number := e.integer(r)
	if number == nil {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		from := len(dst)
		dst, err := number(dst, v)
		if err != nil {
			return dst, err
		}
		if n, err := strconv.Atoi(string(dst[from:])); err != nil || n != 0 && n < firstYear {
			return dst, outOfRange("the number is outside of what %s holds", e.column.Type.Native)
		}
		return dst, nil
	}
}

func errNoSpecial() error {
	return &ValueError{Class: Unstorable, Err: errors.New("the column's type has no NaN or infinity")}
}

func (e *mysqlEncoder) decimal() Encoder {
	number := decimalOf(e.m, e.field)
	if number == nil {
		return nil
	}
	precision, scale := e.column.Type.Length, e.column.Type.Scale
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		d, err := number(v)
		if err == nil && d.special != 0 {
			err = errNoSpecial()
		}
		if err == nil {
			d, err = d.fit(precision, scale)
		}
		if err != nil {
			return dst, err
		}
		s, err := d.text()
		return append(dst, s...), err
	}
}

// float writes numbers with an exponent, which makes the server read them as floating-point numbers, and in the digits of
// a double even for a FLOAT, so that the literal equals what is stored.
func (e *mysqlEncoder) float(size int) Encoder {
	switch e.m.sense {
	case senseFloat, senseInt, senseUint64, senseAny:
	default:
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		x, err := e.parseFloat(v, size)
		if err != nil {
			return dst, err
		}
		if size == 32 {
			x = float64(float32(x))
		}
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return dst, errNoSpecial()
		}
		return strconv.AppendFloat(dst, x, 'e', -1, 64), nil
	}
}

// bit writes a bit string as a number.
func (e *mysqlEncoder) bit() Encoder {
	switch e.m.sense {
	case senseBits, senseBool, senseAny:
	default:
		return nil
	}
	n := max(e.column.Type.Length, 1)
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		b, err := littleEndian(v, n)
		if err != nil {
			return dst, err
		}
		var word [8]byte
		copy(word[:], b.bytes)
		return strconv.AppendUint(dst, binary.LittleEndian.Uint64(word[:]), 10), nil
	}
}

// binary takes bytes. A BINARY(n) fills its values up with zeros, which a binary log leaves out.
func (e *mysqlEncoder) binary() Encoder {
	most, padded := e.column.Type.Length, mysqlBase(e.column.Type) == "binary"
	write := e.appendBytes
	switch e.m.sense {
	case senseBytes, senseAny, senseUUID:
	case senseGeometry:
		write = appendEWKB
	default:
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		from := len(dst)
		dst, err := write(dst, v)
		if err != nil {
			return dst, err
		}
		n := len(dst) - from
		if most > 0 && n > most {
			return dst, &ValueError{Class: TooLarge, Err: fmt.Errorf("the value has %d bytes, and the column holds %d", n, most)}
		}
		if padded && n < most {
			dst = append(dst, make([]byte, most-n)...)
		}
		return dst, nil
	}
}

// The bounds of MySQL's types: the years 0 to 9999, and a TIME of 838:59:59.
const (
	mysqlMinDay  = -730_485 // 0000-01-01, from 2000-01-01
	mysqlEndDay  = 2_921_940
	mysqlMaxTime = (838*3600 + 59*60 + 59) * 1_000_000
)

// mysqlDay refuses what is no date of MySQL's. PostgreSQL's infinities are far outside.
func mysqlDay(days int64) error {
	switch {
	case days == pgDateInfinity || days == pgDateMinusInfinity:
		return &ValueError{Class: Unstorable, Err: errors.New("MySQL has no infinite dates")}
	case days < mysqlMinDay || days >= mysqlEndDay:
		return outOfRange("the date is not within the years 0 to 9999, which MySQL holds")
	}
	return nil
}

func appendMySQLDay(dst []byte, days int64) []byte {
	var room [16]byte
	day := appendDays(room[:0], days+epochDays)
	if eraLen(day) > 0 { // year 0 is 1 BC
		return append(append(dst, "0000"...), day[4:10]...)
	}
	return append(dst, day...)
}

func (e *mysqlEncoder) date() Encoder {
	days := daySource(e.m)
	if days == nil {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		n, err := days(v)
		if err == nil {
			err = mysqlDay(n)
		}
		if err != nil {
			return dst, err
		}
		return appendMySQLDay(dst, n), nil
	}
}

// timestamp encodes for DATETIME and TIMESTAMP. An instant becomes a DATETIME in UTC, as TIMESTAMP ends in 2038.
func (e *mysqlEncoder) timestamp() Encoder {
	column := e.column
	if e.m.sense == senseInstant {
		column.Type.Kind = schema.TimestampTZ
	}
	micros := timestampSource(e.m, column, e.options)
	if micros == nil {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		n, err := micros(v)
		if err != nil {
			return dst, err
		}
		if n == math.MaxInt64 || n == math.MinInt64 {
			return dst, mysqlDay(pgDateInfinity)
		}
		day := n / dayMicros
		if n%dayMicros < 0 {
			day--
		}
		if err := mysqlDay(day); err != nil {
			return dst, err
		}
		return appendMicros(append(appendMySQLDay(dst, day), ' '), n-day*dayMicros), nil
	}
}

func (e *mysqlEncoder) time() Encoder {
	if e.m.sense == senseInterval {
		return nil
	}
	micros := durationSource(e.m, clampScale(e.column.Type.Scale), e.options)
	if micros == nil {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		n, err := micros(v)
		if err == nil && (n < -mysqlMaxTime || n > mysqlMaxTime) {
			err = outOfRange("the time is not within 838:59:59, which TIME holds")
		}
		if err != nil {
			return dst, err
		}
		return appendMicros(dst, n), nil
	}
}

// vector encodes for VECTOR: 32-bit numbers, the lowest byte first.
func (e *mysqlEncoder) vector() Encoder {
	if e.m.sense != senseArray && e.m.sense != senseAny {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		if v.Kind != debezium.ListValue || v.List == nil || v.List.Names != nil {
			return dst, wrongKind()
		}
		if n := e.column.Type.Length; len(v.List.Values) > n {
			return dst, &ValueError{Class: TooLarge, Err: fmt.Errorf("the vector has %d numbers, and the column holds %d", len(v.List.Values), n)}
		}
		item := encoding{m: meaning{sense: senseFloat}, column: e.column}
		for i := range v.List.Values {
			x, err := item.parseFloat(&v.List.Values[i], 32)
			if err != nil {
				return dst, err
			}
			if math.IsNaN(x) || math.IsInf(x, 0) {
				return dst, errNoSpecial()
			}
			dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(x)))
		}
		return dst, nil
	}
}

// uuid encodes for MariaDB's UUID.
func (e *mysqlEncoder) uuid() Encoder {
	if e.m.sense != senseUUID && e.m.sense != senseText && e.m.sense != senseAny {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		if v.Kind != debezium.StringValue {
			return dst, wrongKind()
		}
		out, ok := appendUUIDText(dst, v.Text)
		if !ok {
			return dst, invalid("the text is not a UUID")
		}
		return out, nil
	}
}

// appendUUIDText writes a UUID as PostgreSQL and MariaDB do.
func appendUUIDText(dst []byte, s string) ([]byte, bool) {
	b, ok := appendUUID(nil, s)
	if !ok {
		return dst, false
	}
	return fmt.Appendf(dst, "%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]), true
}

// text encodes for the types of text, and for those of which only the server knows more.
func (e *mysqlEncoder) text() Encoder { return e.bounded(e.appender()) }

// appender returns how values are written as text, or nil.
func (e *mysqlEncoder) appender() appender {
	switch e.m.sense {
	case senseBool:
		return appendBool
	case senseInt, senseUint64, senseDecimal:
		number := decimalOf(e.m, e.field)
		return func(dst []byte, v *debezium.Value) ([]byte, error) { return appendDecimal(dst, v, number) }
	case senseFloat:
		return appendNumber
	case senseUUID:
		return func(dst []byte, v *debezium.Value) ([]byte, error) {
			if out, ok := appendUUIDText(dst, v.Text); ok && v.Kind == debezium.StringValue {
				return out, nil
			}
			return e.appendAny(dst, v)
		}
	case senseArray:
		return e.array()
	case senseAny, senseText, senseJSON, senseInstant, senseMap, senseStruct:
		return e.appendAny
	case senseEnum:
		return e.appendLabel
	case senseBits:
		return e.appendBitText
	case senseDate:
		return e.appendDate(&e.m)
	case senseDatetime:
		return e.appendDatetime(&e.m)
	case senseTime, senseInterval:
		return e.appendDuration(&e.m)
	}
	return nil
}

// appendAny writes a value by its own kind: a list as JSON.
func (e *mysqlEncoder) appendAny(dst []byte, v *debezium.Value) ([]byte, error) {
	switch v.Kind {
	case debezium.StringValue:
		return append(dst, v.Text...), nil
	case debezium.IntValue, debezium.NumberValue, debezium.BoolValue, debezium.ListValue:
		return e.appendJSON(dst, v, 0)
	}
	return dst, wrongKind()
}

// mysqlValueText decodes an encoded value for people.
func mysqlValueText(t schema.Type, v []byte) string {
	v = v[:min(len(v), 2*maxKeyText)]
	if mysqlLiteralOf(t) == literalBytes {
		return fmt.Sprintf("0x%x", v)
	}
	return strings.ToValidUTF8(string(v), "")
}
