package debezium

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// protoLogical moves c over a message that a logical type of Kafka Connect is written as.
func (r *reading) protoLogical(c *protoCursor, f *protoField, v *Value) error {
	in, err := c.inner()
	if err != nil {
		return err
	}
	at := in.at
	var p protoParts
	if err := in.parts(&p, f.kind == protoDecimal || f.kind == protoVariable); err != nil {
		return err
	}
	v.Kind = IntValue
	ok := false
	switch f.kind {
	case protoDate:
		v.Num, ok = daysOf(p.n[1], p.n[2], p.n[3])
	case protoTime:
		v.Num = ((p.n[1]*60+p.n[2])*60+p.n[3])*1000 + p.n[4]/nanosInMilli
		ok = inRange(p.n[1], 23) && inRange(p.n[2], 59) && inRange(p.n[3], 59) && wholeMillis(p.n[4])
	case protoInstant:
		v.Num = p.n[1]*1000 + p.n[2]/nanosInMilli
		ok = p.n[1] >= -maxInstant && p.n[1] <= maxInstant && wholeMillis(p.n[2])
	default:
		return r.protoDecimal(c, f, &p, at, v)
	}
	if !ok {
		return &syntaxError{at, "what is no date, time of day in milliseconds or instant in milliseconds"}
	}
	return nil
}

func (r *reading) protoDecimal(c *protoCursor, f *protoField, p *protoParts, at int, v *Value) error {
	switch {
	case len(p.raw) == 0:
		return &syntaxError{at, "a decimal without digits"}
	case f.kind == protoDecimal && p.n[3] != f.scale:
		return &syntaxError{at, fmt.Sprintf("a decimal of scale %d where the schema says %d", p.n[3], f.scale)}
	case f.kind == protoDecimal:
		r.bytesValue(v, p.raw)
		return nil
	}
	if err := r.spend(c, 2); err != nil {
		return err
	}
	l := r.list()
	l.Names, l.Values = variableNames, r.row(2)
	l.Values[0] = Value{Kind: IntValue, Num: p.n[3]}
	l.Values[1] = Value{Kind: BytesValue, Text: text(p.raw)}
	*v = Value{Kind: ListValue, List: l}
	return nil
}

var variableNames = []string{"scale", "value"}

// maxInstant is the end of the year 9999, in seconds, which is beyond what google.protobuf.Timestamp holds in the past too.
const maxInstant = 253402300799

func inRange(n, most int64) bool { return n >= 0 && n <= most }

func wholeMillis(nanos int64) bool {
	return inRange(nanos, 999_999_999) && nanos%nanosInMilli == 0
}

// protoParts are the fields of a message of up to four numbers, the first of which may be bytes instead.
type protoParts struct {
	n   [5]int64 // by the fields' numbers
	raw []byte
}

// parts moves c over such a message.
func (c *protoCursor) parts(p *protoParts, bytes bool) error {
	var seen [5]bool
	for c.more() {
		num, wire, err := c.tag()
		if err != nil {
			return err
		}
		if num > 4 || seen[num] {
			return c.fail(fmt.Sprintf("a field number %d that is not due", num))
		}
		seen[num] = true
		want := protowire.VarintType
		if bytes && num == 1 {
			want = protowire.BytesType
		}
		if wire != want {
			return c.fail(fmt.Sprintf("wire type %d where %d is due", wire, want))
		}
		if wire == protowire.BytesType {
			p.raw, err = c.bytes()
		} else {
			var u uint64
			u, err = c.varint()
			p.n[num] = int64(u)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

const secondsInDay = 24 * 60 * 60

// daysOf is the number of days from 1970-01-01 to a date as Java's calendar, which the converter uses, writes it: dates before
// 1582-10-15 are Julian. It writes no era, so that a year before Christ is read as one after.
func daysOf(year, month, day int64) (int64, bool) {
	if year < 1 || year > 9999 || month < 1 || month > 12 || day < 1 || day > 31 {
		return 0, false
	}
	gregorian := year > 1582 || year == 1582 && (month > 10 || month == 10 && day >= 15)
	if gregorian {
		t := time.Date(int(year), time.Month(month), int(day), 0, 0, 0, 0, time.UTC)
		return t.Unix() / secondsInDay, t.Day() == int(day)
	}
	if year == 1582 && month == 10 && day > 4 {
		return 0, false // the days that were left out
	}
	days := julianDays(year, month, day)
	next := julianDays(year, month+1, 1)
	if month == 12 {
		next = julianDays(year+1, 1, 1)
	}
	return days, days < next
}

// julianDays is the number of days from 1970-01-01 to a date of the Julian calendar.
func julianDays(year, month, day int64) int64 {
	const epoch = 2440588 // the Julian day number of 1970-01-01
	before := (14 - month) / 12
	y, m := year+4800-before, month+12*before-3
	return day + (153*m+2)/5 + 365*y + y/4 - 32083 - epoch
}
