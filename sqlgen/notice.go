package sqlgen

import (
	"math"
	"strings"

	"replicator/debezium"
	"replicator/schema"
)

// notice tells the operator, by the options, what of a field is not taken as its source meant it.
func (t *Target) notice(f *debezium.Field, source string, c int, enc Encoder) Encoder {
	o, column := &t.config.Options, t.Columns[c]
	if o.Unknown != nil {
		for _, name := range unknownNames(f, nil) {
			o.Unknown(t.Table.Name, column.Name, name)
		}
	}
	m, err := meaningOf(*f, t.witness(source), column)
	if err != nil || o.Cut == nil || !m.isTime() || !holdsTime(column.Type.Kind) {
		return enc
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		dst, err := enc(dst, v)
		if err == nil && m.beyondMicros(v) {
			o.Cut(t.Table.Name, column.Name)
		}
		return dst, err
	}
}

// unknownNames appends the semantic names within f that are not known here. The name of a struct is that of a record, and
// needs not be known.
func unknownNames(f *debezium.Field, names []string) []string {
	if _, ok := semantics[f.Semantic]; !ok && f.Semantic != "" && f.Type != debezium.Struct && f.Type != debezium.Any {
		names = append(names, f.Semantic)
	}
	if f.Items != nil {
		names = unknownNames(f.Items, names)
	}
	return names
}

func (m meaning) isTime() bool {
	switch m.sense {
	case senseTime, senseDatetime, senseInstant, senseInterval:
		return true
	}
	return false
}

// holdsTime says whether columns of a kind hold times, and so microseconds at most.
func holdsTime(k schema.Kind) bool {
	switch k {
	case schema.Time, schema.TimeOfDay, schema.Timestamp, schema.TimestampTZ, schema.Interval:
		return true
	}
	return false
}

// beyondMicros says whether a time has more than microseconds.
func (m meaning) beyondMicros(v *debezium.Value) bool {
	switch v.Kind {
	case debezium.IntValue:
		return m.unit == nanos && v.Num%1000 != 0 && v.Num != math.MaxInt64 && v.Num != math.MinInt64
	case debezium.StringValue:
		i := strings.IndexAny(v.Text, ".,")
		if i < 0 {
			return false
		}
		digits := digitRun(v.Text[i+1:])
		return len(digits) > 6 && strings.Trim(digits[6:], "0") != ""
	}
	return false
}
