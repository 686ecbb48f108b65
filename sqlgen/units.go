package sqlgen

import (
	"errors"
	"sync/atomic"
)

// TimeUnits finds out in which unit a source sends TIME and DATETIME values that come without a schema. By default
// (time.precision.mode adaptive_time_microseconds) Debezium sends TIME, and DATETIME with 4 to 6 digits, in
// microseconds; in mode connect in milliseconds. Nothing in a schemaless message says which, and the two are a factor
// of 1000 apart: a guess that is wrong stores rows that look right. So only values that can be meant in one way count as
// evidence, what one value has shown holds for the pipeline, a value that contradicts it is an error, and so is a
// value that can be read either way before any other has shown the unit.
//
// What is evidence:
//   - a TIME(s) that is no multiple of 10^(6-s) cannot be microseconds;
//   - a TIME below zero or above a day is microseconds: in mode connect Debezium sends null for these;
//   - a DATETIME outside the years 0 to 9999 when read as milliseconds is microseconds;
//   - a DATETIME that is a date from 1980 to 2100 read as milliseconds, and within 60 days of 1970-01-01 read as
//     microseconds, is milliseconds. Strictly it could be the other; a table with such dates needs the setting.
//
// Zero is the same in both. It is safe for concurrent use.
type TimeUnits struct{ unit atomic.Int32 }

// The units of schemaless times, in microseconds; 0 is not known.
const (
	microsUnit = 1
	millisUnit = 1000
)

// The bounds that the evidence is drawn from.
const (
	dayMillis       = 86_400_000
	maxMillis       = 253_402_300_799_999 // 9999-12-31T23:59:59.999
	minMillis       = -62_135_596_800_000 // 0001-01-01
	recentMillis    = 315_532_800_000     // 1980-01-01
	recentMillisEnd = 4_133_980_800_000   // 2101-01-01
	nearEpochMicros = 60 * 86_400_000_000
)

// errUnits are the errors of values whose unit is not known, or not the one that was.
var (
	errUnitUnknown  = errors.New("the value can be milliseconds or microseconds, and no other value has shown which; set source.time_precision to adaptive (Debezium's default: microseconds) or connect (milliseconds)")
	errUnitContrary = errors.New("the value's unit (milliseconds or microseconds) is not the one that earlier values have shown; set source.time_precision to adaptive (Debezium's default: microseconds) or connect (milliseconds)")
)

// time returns the unit of one TIME value with digits fractional ones, in microseconds.
func (u *TimeUnits) time(v int64, digits int, precision string) (int64, error) {
	shown := int64(0)
	switch {
	case v%pow10[6-digits] != 0:
		shown = millisUnit
	case v < 0 || v > dayMillis:
		shown = microsUnit
	}
	if shown == millisUnit && (v < 0 || v > dayMillis) {
		return 0, errors.New("the value is neither a number of microseconds with the column's digits nor one of milliseconds within a day")
	}
	return u.decide(v, shown, precision)
}

// datetime returns the unit of one DATETIME value with 4 to 6 digits, in microseconds.
func (u *TimeUnits) datetime(v int64, digits int, precision string) (int64, error) {
	shown := int64(0)
	switch {
	case v > maxMillis || v < minMillis:
		shown = microsUnit
	case v%pow10[6-digits] != 0:
		shown = millisUnit
	case v >= recentMillis && v < recentMillisEnd && v <= nearEpochMicros:
		shown = millisUnit
	}
	return u.decide(v, shown, precision)
}

// decide settles the unit by what the value showed (0: nothing), the setting, and what was shown before.
func (u *TimeUnits) decide(v, shown int64, precision string) (int64, error) {
	switch precision {
	case "adaptive":
		return microsUnit, nil
	case "connect":
		return millisUnit, nil
	}
	if shown != 0 && u.unit.CompareAndSwap(0, int32(shown)) {
		return shown, nil
	}
	known := int64(u.unit.Load())
	switch {
	case v == 0:
		return microsUnit, nil
	case known == 0:
		return 0, errUnitUnknown
	case shown != 0 && shown != known:
		return 0, errUnitContrary
	}
	return known, nil
}

var pow10 = [...]int64{1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000, 1_000_000_000}
