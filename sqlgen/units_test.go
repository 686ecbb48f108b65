package sqlgen

import (
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

// unitStep is a schemaless value of a TIME or DATETIME column, and what is stored: microseconds from midnight or from
// 2000-01-01, or an error.
type unitStep struct {
	witness schema.Type
	v       int64
	want    string
}

const refused = "refused"

func TestUnitOfSchemalessTimesIsShownByTheirValues(t *testing.T) {
	t.Parallel()
	time0, time3, time6 := schema.Type{Kind: schema.Time}, schema.Type{Kind: schema.Time, Scale: 3}, schema.Type{Kind: schema.Time, Scale: 6}
	date3, date6 := schema.Type{Kind: schema.Timestamp, Scale: 3}, schema.Type{Kind: schema.Timestamp, Scale: 6}
	for _, c := range []struct {
		name      string
		precision string
		steps     []unitStep
	}{
		{"an ambiguous value is refused before the unit is shown", "", []unitStep{{time6, 1000, refused}}},
		{"zero is the same in both", "", []unitStep{{time0, 0, "00:00:00"}, {date6, 0, "1970-01-01 00:00:00"}}},
		{"a negative time is in microseconds", "", []unitStep{{time0, -3_723_000_000, "-01:02:03"}, {time6, 1000, "00:00:00.001"}}},
		{"a time of no whole number of digits is in milliseconds", "", []unitStep{{time3, 86_399_999, "23:59:59.999"}, {time6, 1000, "00:00:01"}}},
		{"a time above a day is in microseconds", "auto", []unitStep{{time3, 86_399_999_000, "23:59:59.999"}, {date6, 5, "1970-01-01 00:00:00.000005"}}},
		{"a recent date is in milliseconds", "", []unitStep{{date6, 1_709_210_096_789, "2024-02-29 12:34:56.789"}, {time6, 1000, "00:00:01"}}},
		{"a date beyond the year 9999 is in microseconds", "", []unitStep{{date6, 1_709_210_096_789_012, "2024-02-29 12:34:56.789012"}, {time6, 1000, "00:00:00.001"}}},
		{"up to three digits a date is always in milliseconds", "", []unitStep{{date3, 1_709_210_096_789, "2024-02-29 12:34:56.789"}, {time6, 1000, refused}}},
		{"a contradiction is refused", "", []unitStep{{date6, 1_709_210_096_789_012, "2024-02-29 12:34:56.789012"}, {date6, 1_709_210_096_789, refused}}},
		{"the setting decides", "adaptive", []unitStep{{time6, 1000, "00:00:00.001"}, {date6, 1_709_210_096_789, "1970-01-20 18:46:50.096789"}}},
		{"the setting decides otherwise", "connect", []unitStep{{time6, 1000, "00:00:01"}}},
	} {
		o := Options{TimePrecision: c.precision, Units: new(TimeUnits)}
		for i, s := range c.steps {
			got := refused
			if text, err := encodeOne(anyField, s.witness, "text", debezium.Value{Kind: debezium.IntValue, Num: s.v}, o); err == nil {
				got = string(text)
			}
			if got != s.want {
				t.Errorf("%s: step %d: got %s, want %s", c.name, i, got, s.want)
			}
		}
	}
}
