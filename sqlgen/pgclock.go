package sqlgen

import (
	"math"
	"strconv"

	"replicator/debezium"
)

// appendDate writes a date as ISO text.
func (e *encoding) appendDate(m *meaning) appender {
	days := daySource(*m)
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		if v.Kind == debezium.StringValue {
			return e.appendClean(dst, v.Text)
		}
		n, err := days(v)
		if err != nil {
			return dst, err
		}
		return appendPostgresDay(dst, n), nil
	}
}

// appendPostgresDay writes the day n days after 2000-01-01, or an infinity.
func appendPostgresDay(dst []byte, n int64) []byte {
	switch n {
	case pgDateInfinity:
		return append(dst, "infinity"...)
	case pgDateMinusInfinity:
		return append(dst, "-infinity"...)
	}
	return appendDays(dst, n+epochDays)
}

// appendDays writes the day n days after 1970-01-01. The inverse of daysOf.
func appendDays(dst []byte, n int64) []byte {
	n += 719468
	era := n / 146097
	if n%146097 < 0 {
		era--
	}
	dayOfEra := n - era*146097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36524 - dayOfEra/146096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	mp := (5*dayOfYear + 2) / 153
	day, month, year := dayOfYear-(153*mp+2)/5+1, mp%12+3, era*400+yearOfEra
	if mp >= 10 {
		month, year = mp-9, year+1
	}
	bc := ""
	if year < 1 {
		year, bc = 1-year, " BC"
	}
	dst = append(appendPadded(dst, uint64(year), 4), '-')
	dst = append(appendPadded(dst, uint64(month), 2), '-')
	return append(appendPadded(dst, uint64(day), 2), bc...)
}

// appendPadded writes n in at least so many digits.
func appendPadded(dst []byte, n uint64, width int) []byte {
	var room [20]byte
	digits := strconv.AppendUint(room[:0], n, 10)
	for range width - len(digits) {
		dst = append(dst, '0')
	}
	return append(dst, digits...)
}

// appendDatetime writes a wall clock as ISO text, in PostgreSQL's form with a blank.
func (e *encoding) appendDatetime(m *meaning) appender {
	units := e.options.Units
	if units == nil {
		units = new(TimeUnits)
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		switch v.Kind {
		case debezium.StringValue:
			return e.appendClean(dst, v.Text)
		case debezium.IntValue:
		default:
			return dst, wrongKind()
		}
		n, err := timestampNumber(v.Num, *m, 6, units, e.options.TimePrecision)
		if err != nil {
			return dst, err
		}
		return appendPostgresTime(dst, n, ""), nil
	}
}

// appendPostgresTime writes the time n microseconds after 2000-01-01, or an infinity, with a zone behind it.
func appendPostgresTime(dst []byte, n int64, zone string) []byte {
	switch n {
	case math.MaxInt64:
		return append(dst, "infinity"...)
	case math.MinInt64:
		return append(dst, "-infinity"...)
	}
	days := n / dayMicros
	if n%dayMicros < 0 {
		days--
	}
	var room [32]byte
	date := appendDays(room[:0], days+epochDays)
	dst = append(append(dst, date[:len(date)-eraLen(date)]...), ' ')
	dst = append(appendMicros(dst, n-days*dayMicros), zone...)
	return append(dst, date[len(date)-eraLen(date):]...)
}

// eraLen is the length of " BC" at the end of a date.
func eraLen(date []byte) int {
	if date[len(date)-1] == 'C' {
		return len(" BC")
	}
	return 0
}

// appendDuration writes a duration or a time of day.
func (e *encoding) appendDuration(m *meaning) appender {
	micros := durationSource(*m, 6, e.options)
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		if v.Kind == debezium.StringValue {
			return e.appendClean(dst, v.Text)
		}
		n, err := micros(v)
		if err != nil {
			return dst, err
		}
		return appendMicros(dst, n), nil
	}
}

// appendMicros writes a number of microseconds as [-]HH:MM:SS[.ffffff].
func appendMicros(dst []byte, n int64) []byte {
	u := uint64(n)
	if n < 0 {
		dst, u = append(dst, '-'), -u
	}
	sec := u / 1_000_000
	dst = append(appendPadded(dst, sec/3600, 2), ':')
	dst = append(appendPadded(dst, sec/60%60, 2), ':')
	return appendFraction(appendPadded(dst, sec%60, 2), u%1_000_000)
}

// appendFraction writes .ffffff, as far as it is not zeros.
func appendFraction(dst []byte, micros uint64) []byte {
	if micros == 0 {
		return dst
	}
	dst = appendPadded(append(dst, '.'), micros, 6)
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

// appendSeconds writes a number of microseconds as ISO 8601's seconds, [-]S.ffffffS.
func appendSeconds(dst []byte, n int64) []byte {
	u := uint64(n)
	if n < 0 {
		dst, u = append(dst, '-'), -u
	}
	dst = strconv.AppendUint(dst, u/1_000_000, 10)
	return append(appendFraction(dst, u%1_000_000), 'S')
}
