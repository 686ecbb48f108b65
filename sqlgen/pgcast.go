package sqlgen

import (
	"strconv"

	"replicator/debezium"
	"replicator/schema"
)

// cast returns how values are written as text that the server casts to the column's type: the elements of arrays, and the
// values of domains and of types that are not sent in binary form. A cast that SQL writes out rounds, and cuts off, without a
// word, what does not fit; here it is refused. nil: there is no lossless way.
func (e *pgEncoder) cast() appender {
	if base := e.column.Type.Base; base != nil {
		of := *e
		of.column.Type = *base
		return of.cast()
	}
	var write appender
	switch e.column.Type.Kind {
	case schema.Decimal:
		write = e.castDecimal()
	case schema.Float32:
		write = e.castReal()
	case schema.Bit, schema.VarBit:
		write = e.castBits()
	case schema.Date:
		write = e.castDate()
	case schema.Timestamp, schema.TimestampTZ:
		write = e.castTimestamp()
	case schema.TimeOfDay:
		write = e.castTime()
	case schema.TimeTZ:
		write = e.castTimeTZ()
	case schema.Interval:
		write = e.castInterval()
	case schema.Char, schema.Varchar:
		return appender(e.text())
	}
	if write == nil {
		write = e.appender(&e.m)
	}
	return write
}

func (e *pgEncoder) castDecimal() appender {
	number := e.fitting()
	if number == nil {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		d, err := number(v)
		if err != nil {
			return dst, err
		}
		s, err := d.text()
		return append(dst, s...), err
	}
}

func (e *pgEncoder) castReal() appender {
	if e.float(32) == nil {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		x, err := e.parseFloat(v, 32)
		if err != nil {
			return dst, err
		}
		return strconv.AppendFloat(dst, x, 'g', -1, 32), nil // of what is no number too PostgreSQL takes Go's names
	}
}

// castBits writes as many bits as a bit(n) has: a cast fills up on the right.
func (e *pgEncoder) castBits() appender {
	if e.bits() == nil {
		return nil
	}
	fixed, limit := e.column.Type.Kind == schema.Bit, e.column.Type.Length
	if fixed {
		limit = max(limit, 1)
	} else if limit == 0 {
		limit = maxBits
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		b, err := littleEndian(v, limit)
		if err != nil {
			return dst, err
		}
		n := limit
		if !fixed {
			n = e.length(b, limit)
		}
		return appendBitDigits(dst, b, n), nil
	}
}

func (e *pgEncoder) castDate() appender {
	days := daySource(e.m)
	if days == nil {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		n, err := days(v)
		if err != nil {
			return dst, err
		}
		return appendPostgresDay(dst, n), nil
	}
}

func (e *pgEncoder) castTimestamp() appender {
	micros := timestampSource(e.m, e.column, e.options)
	if micros == nil {
		return nil
	}
	zone := ""
	if e.column.Type.Kind == schema.TimestampTZ {
		zone = "+00"
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		n, err := micros(v)
		if err != nil {
			return dst, err
		}
		return appendPostgresTime(dst, n, zone), nil
	}
}

func (e *pgEncoder) castTime() appender {
	write := e.timeOfDay()
	if write == nil {
		return nil
	}
	micros := durationSource(e.m, clampScale(e.column.Type.Scale), e.options)
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		n, err := micros(v)
		if err == nil {
			err = withinDay(n)
		}
		if err != nil {
			return dst, err
		}
		return appendMicros(dst, n), nil
	}
}

// castTimeTZ cuts off what is beyond microseconds, as of every time.
func (e *pgEncoder) castTimeTZ() appender {
	if e.m.sense != senseText && e.m.sense != senseAny {
		return nil
	}
	digits := clampScale(e.column.Type.Scale)
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		if v.Kind != debezium.StringValue {
			return dst, wrongKind()
		}
		p := scanner{s: v.Text}
		n, _ := p.time(24)
		zone := p.s
		if _, zoned := p.zone(); p.bad || !zoned || p.s != "" || n > dayMicros {
			return dst, invalid("the text is not a time with a zone such as 12:34:56.789Z")
		}
		return append(appendMicros(dst, n), zone...), checkDigits(n, digits)
	}
}

func (e *pgEncoder) castInterval() appender {
	micros := durationSource(e.m, clampScale(e.column.Type.Scale), e.options)
	if micros == nil {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		i, err := e.intervalOf(v, micros)
		if err != nil {
			return dst, err
		}
		dst = strconv.AppendInt(append(dst, 'P'), i.months, 10)
		dst = strconv.AppendInt(append(dst, 'M'), i.days, 10)
		return appendSeconds(append(dst, "DT"...), i.micros), nil
	}
}
