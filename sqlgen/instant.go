package sqlgen

import (
	"errors"
	"math"
	"strings"

	"replicator/debezium"
	"replicator/schema"
)

// The calendar is the proleptic Gregorian one, with a year 0, as in Java, ISO 8601 and PostgreSQL's own arithmetic.
// Times are microseconds since 1970-01-01, or days; PostgreSQL counts from 2000-01-01.
//
// PostgreSQL has no column that holds more than microseconds. What a source sends beyond them (nanoseconds of SQL
// Server's datetime2(7), Oracle's timestamp(9)) is cut off towards the past, in keys and in values alike, so that the
// same value of the source is always the same in the target. Less than microseconds is a choice of the column's type:
// a value that does not fit there is refused.
const (
	dayMicros   = 86_400_000_000
	epochDays   = 10_957 // 1970-01-01 to 2000-01-01
	epochMicros = epochDays * dayMicros

	// The bounds of PostgreSQL's types (src/include/datatype/timestamp.h), from 2000-01-01; the upper are exclusive.
	pgMinDate      = -2_451_545
	pgEndDate      = 2_145_031_949
	pgMinTimestamp = -211_813_488_000_000_000
	pgEndTimestamp = 9_223_371_331_200_000_000

	// PostgreSQL's infinities in binary form.
	pgDateInfinity      = math.MaxInt32
	pgDateMinusInfinity = math.MinInt32

	// What Debezium's PostgreSQL connector makes of them: the JDBC driver's stand-ins, in whatever unit; as days they
	// are what is left of these in 32 bits, which is no date of any year that a column holds.
	sentInfinity          = 9_223_372_036_825_200_000
	sentMinusInfinity     = -9_223_372_036_832_400_000
	sentDateInfinity      = -622_191_234
	sentDateMinusInfinity = 622_191_232
)

const errTimeRange = "the time is outside of what the column's type holds"

// clock is a point in time that was read from text, or a duration.
type clock struct {
	days     int64
	micros   int64 // of the day
	offset   int64 // seconds east of UTC
	zoned    bool
	infinite int // -1 or 1
}

// daysOf counts the days from 1970-01-01 to a date, which may be one that does not exist: the caller checks.
func daysOf(year int64, month, day int) int64 {
	// The year begins in March, so that the leap day is its last; an era is 400 years.
	if month <= 2 {
		year--
	}
	era := year / 400
	if year%400 < 0 {
		era--
	}
	yearOfEra := year - era*400
	dayOfYear := int64((153*((month+9)%12)+2)/5 + day - 1)
	return era*146097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719468
}

func daysIn(year int64, month int) int {
	switch {
	case month == 2 && (year%4 == 0 && year%100 != 0 || year%400 == 0):
		return 29
	case month == 2:
		return 28
	case month == 4 || month == 6 || month == 9 || month == 11:
		return 30
	}
	return 31
}

// scanner reads fixed forms from a text; the first thing that does not fit makes it fail for good.
type scanner struct {
	s   string
	bad bool
}

func (p *scanner) has(c byte) bool {
	if p.bad || p.s == "" || p.s[0] != c {
		return false
	}
	p.s = p.s[1:]
	return true
}

func (p *scanner) need(c byte) {
	if !p.has(c) {
		p.bad = true
	}
}

// number reads at least least and at most most digits.
func (p *scanner) number(least, most int) int64 {
	d := digitRun(p.s)
	if p.bad || len(d) < least || len(d) > most {
		p.bad = true
		return 0
	}
	p.s = p.s[len(d):]
	n := int64(0)
	for i := range len(d) {
		n = n*10 + int64(d[i]-'0')
	}
	return n
}

func (p *scanner) date() int64 {
	sign := int64(1)
	if p.has('-') {
		sign = -1
	} else {
		p.has('+')
	}
	year := sign * p.number(4, 9)
	p.need('-')
	month := int(p.number(2, 2))
	p.need('-')
	day := int(p.number(2, 2))
	if strings.HasSuffix(p.s, " BC") { // the era stands at the end, behind the zone
		p.s = p.s[:len(p.s)-3]
		year = 1 - year
	}
	if p.bad || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) {
		p.bad = true
		return 0
	}
	return daysOf(year, month, day)
}

// time reads hours, minutes and maybe seconds and their fraction; hours up to maxHours.
func (p *scanner) time(maxHours int64) (micros, nanos int64) {
	h := p.number(1, 9)
	p.need(':')
	m := p.number(2, 2)
	s, frac := int64(0), int64(0)
	if p.has(':') {
		s = p.number(2, 2)
		if p.has('.') || p.has(',') {
			digits := len(digitRun(p.s))
			frac = p.number(1, 9)
			if !p.bad {
				frac *= pow10[9-digits]
			}
		}
	}
	if h > maxHours || m > 59 || s > 59 {
		p.bad = true
	}
	return ((h*60+m)*60+s)*1_000_000 + frac/1000, frac % 1000
}

func (p *scanner) zone() (offset int64, zoned bool) {
	if p.has('Z') || p.has('z') {
		return 0, true
	}
	sign := int64(1)
	switch {
	case p.has('+'):
	case p.has('-'):
		sign = -1
	default:
		return 0, false
	}
	h, m, s := p.number(2, 2), int64(0), int64(0)
	if p.has(':') {
		m = p.number(2, 2)
		if p.has(':') {
			s = p.number(2, 2)
		}
	}
	if h > 18 || m > 59 || s > 59 {
		p.bad = true
	}
	return sign * ((h*60+m)*60 + s), true
}

// parseClock reads ISO 8601's date and time as Java writes them: a year of more than four digits has a sign, years
// before 1 are 0 and below (or end in BC), seconds may be missing.
func parseClock(s string) (clock, bool) {
	switch s {
	case "infinity", "Infinity":
		return clock{infinite: 1}, true
	case "-infinity", "-Infinity":
		return clock{infinite: -1}, true
	}
	p := scanner{s: s}
	c := clock{days: p.date()}
	if p.has('T') || p.has(' ') {
		c.micros, _ = p.time(24)
		if c.micros > dayMicros {
			p.bad = true
		}
	}
	c.offset, c.zoned = p.zone()
	return c, !p.bad && p.s == ""
}

// wall returns the microseconds from 2000-01-01 that the clock shows, without its zone.
func (c clock) wall() int64 { return (c.days-epochDays)*dayMicros + c.micros }

// daySource returns how values of m become days from 2000-01-01, or nil.
func daySource(m meaning) func(v *debezium.Value) (int64, error) {
	if m.sense != senseDate {
		return nil
	}
	return func(v *debezium.Value) (int64, error) {
		switch v.Kind {
		case debezium.IntValue:
			switch v.Num {
			case sentDateInfinity, pgDateInfinity:
				return pgDateInfinity, nil
			case sentDateMinusInfinity, pgDateMinusInfinity:
				return pgDateMinusInfinity, nil
			}
			if v.Num > math.MaxInt32 || v.Num < math.MinInt32 {
				return 0, outOfRange(errTimeRange)
			}
			return inDates(v.Num - epochDays)
		case debezium.StringValue:
			c, ok := parseClock(v.Text)
			switch {
			case !ok || c.micros != 0:
				return 0, invalid("the text is not a date such as 2024-02-29")
			case c.infinite > 0:
				return pgDateInfinity, nil
			case c.infinite < 0:
				return pgDateMinusInfinity, nil
			}
			return inDates(c.days - epochDays)
		}
		return 0, wrongKind()
	}
}

func inDates(days int64) (int64, error) {
	if days < pgMinDate || days >= pgEndDate {
		return 0, outOfRange(errTimeRange)
	}
	return days, nil
}

// timestampSource returns how values of m become microseconds from 2000-01-01 with at most digits fractional ones, or
// nil. A wall clock and an instant are not the same: only an instant goes into a column that has a zone, and into one
// without goes only a wall clock, or an instant whose zone is UTC when only the values tell.
func timestampSource(m meaning, c schema.Column, o Options) func(v *debezium.Value) (int64, error) {
	digits := clampScale(c.Type.Scale)
	zoned := c.Type.Kind == schema.TimestampTZ
	units := o.Units
	if units == nil {
		units = new(TimeUnits)
	}
	numbers := m.sense == senseDatetime && !zoned
	switch {
	case m.sense == senseDatetime && !zoned, m.sense == senseInstant && zoned:
	case m.sense == senseDate && !zoned: // a date is midnight
		days := daySource(m)
		return func(v *debezium.Value) (int64, error) {
			d, err := days(v)
			switch {
			case err != nil:
				return 0, err
			case d == pgDateInfinity:
				return math.MaxInt64, nil
			case d == pgDateMinusInfinity:
				return math.MinInt64, nil
			case d >= pgEndTimestamp/dayMicros:
				return 0, outOfRange(errTimeRange)
			}
			return d * dayMicros, nil
		}
	default:
		return nil
	}
	return func(v *debezium.Value) (int64, error) {
		switch {
		case v.Kind == debezium.IntValue && numbers:
			return timestampNumber(v.Num, m, digits, units, o.TimePrecision)
		case v.Kind == debezium.StringValue:
			return timestampText(v.Text, zoned, digits)
		}
		return 0, wrongKind()
	}
}

func timestampNumber(n int64, m meaning, digits int, units *TimeUnits, precision string) (int64, error) {
	switch n {
	case sentInfinity, math.MaxInt64:
		return math.MaxInt64, nil
	case sentMinusInfinity, math.MinInt64:
		return math.MinInt64, nil
	}
	u := m.unit
	if u == unitUnknown {
		us, err := units.datetime(n, m.digits, precision)
		if err != nil {
			return 0, &ValueError{Class: InvalidValue, Err: err}
		}
		u = unit(us) * micros
	}
	n, err := toMicros(n, u)
	if err != nil {
		return 0, err
	}
	if n < math.MinInt64+epochMicros {
		return 0, outOfRange(errTimeRange)
	}
	return inTimestamps(n-epochMicros, digits)
}

// toMicros converts n from u; of nanoseconds it cuts off what is beyond microseconds, towards the past.
func toMicros(n int64, u unit) (int64, error) {
	if u < micros {
		factor := int64(micros / u)
		us := n / factor
		if n%factor < 0 {
			us--
		}
		return us, nil
	}
	factor := int64(u / micros)
	if n > math.MaxInt64/factor || n < math.MinInt64/factor {
		return 0, outOfRange(errTimeRange)
	}
	return n * factor, nil
}

func inTimestamps(n int64, digits int) (int64, error) {
	if n < pgMinTimestamp || n >= pgEndTimestamp {
		return 0, outOfRange(errTimeRange)
	}
	return n, checkDigits(n, digits)
}

func checkDigits(micros int64, digits int) error {
	if micros%pow10[6-digits] != 0 {
		return outOfRange("the time has more than the %d fractional digits that the column's type holds", digits)
	}
	return nil
}

func timestampText(s string, zoned bool, digits int) (int64, error) {
	c, ok := parseClock(s)
	switch {
	case !ok:
		return 0, invalid("the text is not a date and time such as 2024-02-29T12:34:56.789Z")
	case c.infinite > 0:
		return math.MaxInt64, nil
	case c.infinite < 0:
		return math.MinInt64, nil
	case zoned && !c.zoned:
		return 0, invalid("the time has no zone, and the column's type needs one")
	case !zoned && c.offset != 0:
		return 0, invalid("the time has a zone, and the column's type holds a wall clock")
	case c.days-epochDays < pgMinDate || c.days-epochDays > pgEndTimestamp/dayMicros: // before it is multiplied
		return 0, outOfRange(errTimeRange)
	}
	return inTimestamps(c.wall()-c.offset*1_000_000, digits)
}

// durationSource returns how values of m become microseconds, or nil.
func durationSource(m meaning, digits int, o Options) func(v *debezium.Value) (int64, error) {
	if m.sense != senseTime && m.sense != senseInterval {
		return nil
	}
	units := o.Units
	if units == nil {
		units = new(TimeUnits)
	}
	return func(v *debezium.Value) (int64, error) {
		switch v.Kind {
		case debezium.IntValue:
			u := m.unit
			if u == unitUnknown {
				us, err := units.time(v.Num, m.digits, o.TimePrecision)
				if err != nil {
					return 0, &ValueError{Class: InvalidValue, Err: err}
				}
				u = unit(us) * micros
			}
			n, err := toMicros(v.Num, u)
			if err != nil {
				return 0, err
			}
			return n, checkDigits(n, digits)
		case debezium.StringValue:
			n, err := parseDuration(v.Text)
			if err != nil {
				return 0, err
			}
			return n, checkDigits(n, digits)
		}
		return 0, wrongKind()
	}
}

// parseDuration reads [-]H:MM[:SS[.ffffff]], with a Z behind it that Debezium's IsoTime has.
func parseDuration(s string) (int64, error) {
	p := scanner{s: s}
	negative := p.has('-')
	const maxHours = 2_000_000_000 // within an int64 of microseconds
	n, nanos := p.time(maxHours)
	p.has('Z')
	switch {
	case p.bad || p.s != "":
		return 0, invalid("the text is not a time such as 12:34:56.789")
	case negative && nanos != 0:
		n = -n - 1
	case negative:
		n = -n
	}
	return n, nil
}

// interval is months, days and microseconds, as PostgreSQL keeps them apart.
type interval struct{ months, days, micros int64 }

var errInterval = errors.New("the text is not an interval such as P1Y2M3DT4H5M6.78S")

// parseInterval reads ISO 8601's duration with a sign before any number, as Debezium's io.debezium.time.Interval.
func parseInterval(s string) (interval, error) {
	p := scanner{s: s}
	p.need('P')
	var out interval
	inTime := false
	for p.s != "" && !p.bad {
		if p.has('T') {
			inTime = true
			continue
		}
		out.part(&p, inTime)
	}
	if p.bad || len(s) < 3 || len(s) > 200 {
		return out, &ValueError{Class: InvalidValue, Err: errInterval}
	}
	if out.months > math.MaxInt32 || out.months < math.MinInt32 || out.days > math.MaxInt32 || out.days < math.MinInt32 {
		return out, outOfRange(errTimeRange)
	}
	return out, nil
}

// part adds a number and its unit. Only seconds have fractional digits.
func (i *interval) part(p *scanner, inTime bool) {
	n, nanos := p.signed()
	switch {
	case nanos != 0 && !strings.HasPrefix(p.s, "S"):
		p.bad = true
	case !inTime && p.has('Y'):
		i.months += 12 * n
	case !inTime && p.has('M'):
		i.months += n
	case !inTime && p.has('W'):
		i.days += 7 * n
	case !inTime && p.has('D'):
		i.days += n
	case p.has('H'):
		i.micros += n * 3_600_000_000
	case p.has('M'):
		i.micros += n * 60_000_000
	case p.has('S'):
		i.micros += n*1_000_000 + nanos/1000
		if nanos%1000 < 0 {
			i.micros--
		}
	default:
		p.bad = true
	}
}

// signed reads a number that may have a sign and fractional digits, which are returned as billionths of the same sign.
func (p *scanner) signed() (n, nanos int64) {
	sign := int64(1)
	if p.has('-') {
		sign = -1
	} else {
		p.has('+')
	}
	n = sign * p.number(1, 9)
	if p.has('.') {
		digits := len(digitRun(p.s))
		if nanos = p.number(1, 9); !p.bad {
			nanos *= sign * pow10[9-digits]
		}
	}
	return n, nanos
}
