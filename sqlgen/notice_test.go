package sqlgen

import (
	"math"
	"slices"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

func TestCutNanosecondsAreCounted(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		semantic, column string
		v                debezium.Value
		want             int
	}{
		{"io.debezium.time.NanoTimestamp", "timestamp without time zone", intValue(1_648_811_502_929_775_100), 1},
		{"io.debezium.time.NanoTimestamp", "timestamp without time zone", intValue(-1_648_811_502_929_775_100), 1},
		{"io.debezium.time.NanoTimestamp", "timestamp without time zone", intValue(1_648_811_502_929_775_000), 0},
		{"io.debezium.time.NanoTimestamp", "timestamp without time zone", intValue(math.MaxInt64), 0},
		{"io.debezium.time.NanoTimestamp", "text", intValue(1_648_811_502_929_775_100), 0},
		{"io.debezium.time.MicroTimestamp", "timestamp without time zone", intValue(1_648_811_502_929_775), 0},
		{"io.debezium.time.NanoTime", "time without time zone", intValue(40_302_929_775_100), 1},
		{"io.debezium.time.NanoDuration", "interval", intValue(-1), 1},
		{"io.debezium.time.ZonedTimestamp", "timestamp with time zone", textValue("2022-04-01T11:11:42.9297751+02:00"), 1},
		{"io.debezium.time.ZonedTimestamp", "timestamp with time zone", textValue("2022-04-01T11:11:42.929775000+02:00"), 0},
		{"io.debezium.time.ZonedTimestamp", "timestamp with time zone", textValue("2022-04-01T11:11:42Z"), 0},
		{"io.debezium.time.IsoTime", "time without time zone", textValue("11:11:42.9297751Z"), 1},
		{"io.debezium.time.Interval", "interval", textValue("PT0.0000001S"), 1},
		{"io.debezium.time.Interval", "interval", textValue("P1Y"), 0},
	} {
		table := textColumns("id", "at")
		table.Columns[1].Type = PostgresType(c.column)
		got := 0
		target, err := NewTarget(Postgres{}, table, TargetConfig{Options: Options{Cut: func(n schema.Name, column string) {
			if n != table.Name || column != "at" {
				t.Errorf("counted for table %v, column %s", n, column)
			}
			got++
		}}})
		if err != nil {
			t.Fatal(err)
		}
		kind := debezium.Int64
		if c.v.Kind == debezium.StringValue {
			kind = debezium.String
		}
		shape := &debezium.Shape{Fields: []debezium.Field{{Name: "id", Type: debezium.String}, {Name: "at", Type: kind, Semantic: c.semantic}}}
		e := debezium.Event{Op: debezium.Create, After: debezium.Row{Shape: shape, Values: []debezium.Value{textValue("1"), c.v}}}
		if err := NewBatch(Postgres{}).Add(target, &e); err != nil || got != c.want {
			t.Errorf("%s %v%s into %s: %d values were counted, want %d (%v)", c.semantic, c.v.Num, c.v.Text, c.column, got, c.want, err)
		}
	}
}

func TestUnknownSemanticNamesAreToldByColumn(t *testing.T) {
	t.Parallel()
	var got []string
	target, err := NewTarget(Postgres{}, textColumns("id", "a", "b", "c", "d"), TargetConfig{Options: Options{
		Unknown: func(n schema.Name, column, name string) { got = append(got, n.String()+"."+column+" "+name) },
	}})
	if err != nil {
		t.Fatal(err)
	}
	fields := []debezium.Field{
		{Name: "id", Type: debezium.String, Semantic: "io.debezium.data.Uuid"},
		{Name: "a", Type: debezium.String, Semantic: "com.example.Colour"},
		{Name: "b", Type: debezium.Array, Items: &debezium.Field{Type: debezium.Int32, Semantic: "com.example.Money"}},
		{Name: "c", Type: debezium.Struct, Semantic: "com.example.Record"},
		{Name: "d", Type: debezium.String, Semantic: "io.debezium.data.Xml"},
	}
	for range 2 {
		e := debezium.Event{Op: debezium.Create, After: debezium.Row{
			Shape:  &debezium.Shape{Fields: fields},
			Values: []debezium.Value{textValue("1"), textValue("red"), list(intValue(1)), object("a", textValue("x")), textValue("<a/>")},
		}}
		if err := NewBatch(Postgres{}).Add(target, &e); err != nil {
			t.Fatal(err)
		}
	}
	want := []string{"t.a com.example.Colour", "t.b com.example.Money"}
	if want = append(want, want...); !slices.Equal(got, want) { // a layout each
		t.Errorf("got %q, want %q", got, want)
	}
}
