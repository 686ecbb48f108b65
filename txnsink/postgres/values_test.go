package postgres

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// sample is a column, a value as an event sends it, and what PostgreSQL must make of it.
type sample struct {
	sqlType string
	field   debezium.Field
	value   debezium.Value
	want    string
}

func intValue(n int64) debezium.Value     { return debezium.Value{Kind: debezium.IntValue, Num: n} }
func stringValue(s string) debezium.Value { return debezium.Value{Kind: debezium.StringValue, Text: s} }

// samples has every type that travels in binary form, and some that travel as text.
var samples = []sample{
	{"boolean", debezium.Field{Type: debezium.Boolean}, debezium.Value{Kind: debezium.BoolValue, Num: 1}, "t"},
	{"smallint", debezium.Field{Type: debezium.Int16}, intValue(-32768), "-32768"},
	{"integer", debezium.Field{Type: debezium.Int32}, intValue(2147483647), "2147483647"},
	{"bigint", debezium.Field{Type: debezium.Int64}, intValue(-9223372036854775808), "-9223372036854775808"},
	{"real", debezium.Field{Type: debezium.Float32}, debezium.Value{Kind: debezium.NumberValue, Text: "1.17549435E-38"}, "1.1754944e-38"},
	{"double precision", debezium.Field{Type: debezium.Float64}, debezium.Value{Kind: debezium.NumberValue, Text: "0.1"}, "0.1"},
	{"numeric(10,2)", debezium.Field{Type: debezium.Bytes, Semantic: "org.apache.kafka.connect.data.Decimal", Params: map[string]string{"scale": "2"}}, stringValue("/w=="), "-0.01"},
	{"numeric", debezium.Field{Type: debezium.String}, stringValue("12345678901234567890.1200"), "12345678901234567890.1200"},
	{"text", debezium.Field{Type: debezium.String}, stringValue("it's \\ \"ä😀\"\n"), "it's \\ \"ä😀\"\n"},
	{"varchar(3)", debezium.Field{Type: debezium.String}, stringValue("äöü"), "äöü"},
	{"char(4)", debezium.Field{Type: debezium.String}, stringValue("ab"), "ab  "},
	{"bytea", debezium.Field{Type: debezium.Bytes}, stringValue("AP8B"), `\x00ff01`},
	{"date", debezium.Field{Type: debezium.Int32, Semantic: "io.debezium.time.Date"}, intValue(-1), "1969-12-31"},
	{"timestamp(3)", debezium.Field{Type: debezium.Int64, Semantic: "io.debezium.time.Timestamp"}, intValue(-1), "1969-12-31 23:59:59.999"},
	{"timestamp(6)", debezium.Field{Type: debezium.Int64, Semantic: "io.debezium.time.MicroTimestamp"}, intValue(253402300799999999), "9999-12-31 23:59:59.999999"},
	{"timestamptz(6)", debezium.Field{Type: debezium.String, Semantic: "io.debezium.time.ZonedTimestamp"}, stringValue("2024-02-29T23:59:59.5+01:00"), "2024-02-29 22:59:59.5+00"},
	{"time(6)", debezium.Field{Type: debezium.Int64, Semantic: "io.debezium.time.MicroTime"}, intValue(86399999999), "23:59:59.999999"},
	{"interval", debezium.Field{Type: debezium.Int64, Semantic: "io.debezium.time.MicroTime"}, intValue(-3020399000000), "-838:59:59"},
	{"uuid", debezium.Field{Type: debezium.String, Semantic: "io.debezium.data.Uuid"}, stringValue("00112233-4455-6677-8899-aabbccddeeff"), "00112233-4455-6677-8899-aabbccddeeff"},
	{"json", debezium.Field{Type: debezium.String, Semantic: "io.debezium.data.Json"}, stringValue(`{"b": 1,  "a":[null]}`), `{"b": 1,  "a":[null]}`},
	{"jsonb", debezium.Field{Type: debezium.String, Semantic: "io.debezium.data.Json"}, stringValue(`{"b": 1,  "a":[null]}`), `{"a": [null], "b": 1}`},
	{"bit(9)", debezium.Field{Type: debezium.Bytes, Semantic: "io.debezium.data.Bits", Params: map[string]string{"length": "9"}}, stringValue("AQE="), "100000001"},
	{"mood", debezium.Field{Type: debezium.String, Semantic: "io.debezium.data.Enum", Params: map[string]string{"allowed": "sad,it's ok"}}, stringValue("it's ok"), "it's ok"},
	{"posint", debezium.Field{Type: debezium.String}, stringValue("7"), "7"},
	{"inet", debezium.Field{Type: debezium.String}, stringValue("10.1.2.3/8"), "10.1.2.3/8"},
	{"money", debezium.Field{Type: debezium.String}, stringValue("12.30"), "$12.30"},
	{
		"numeric(5,2)[]",
		debezium.Field{Type: debezium.Array, Items: &debezium.Field{Type: debezium.Bytes, Semantic: "org.apache.kafka.connect.data.Decimal", Params: map[string]string{"scale": "2"}}},
		debezium.Value{Kind: debezium.ListValue, List: &debezium.List{Values: []debezium.Value{stringValue("AJY="), {Kind: debezium.Null}}}},
		"{1.50,NULL}",
	},
	{"xml", debezium.Field{Type: debezium.String}, stringValue("<a/>"), "<a/>"},
	{"int4range", debezium.Field{Type: debezium.String}, stringValue("[1,5)"), "[1,5)"},
}

// TestValuesOfEveryTypeArrive writes each sample and a NULL next to it, alone and in a table with all of them.
func TestValuesOfEveryTypeArrive(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	query(t, url, "CREATE TYPE mood AS ENUM ('sad', 'it''s ok'); CREATE DOMAIN posint AS int CHECK (value > 0)")
	s := fenced(t, url, "SELECT 1")
	shape := &debezium.Shape{Fields: []debezium.Field{{Name: "id", Type: debezium.Int32}}}
	ddl := "CREATE TABLE every (id int PRIMARY KEY"
	full, empty := []debezium.Value{intValue(1)}, []debezium.Value{intValue(2)}
	want := []string{"1", "2"}
	for i, c := range samples {
		c.field.Name = "c" + string(rune('a'+i%26)) + strings.Repeat("x", i/26)
		c.field.Optional = true
		ddl += ", " + c.field.Name + " " + c.sqlType
		shape.Fields = append(shape.Fields, c.field)
		full, empty = append(full, c.value), append(empty, debezium.Value{Kind: debezium.Null})
		want[0], want[1] = want[0]+"|"+c.want, want[1]+"|NULL"
	}
	if err := s.Define(t.Context(), txnsink.Definition{DDL: []string{ddl + ")"}}); err != nil {
		t.Fatal(err)
	}
	found, err := s.Table(t.Context(), schema.Name{Table: "every"})
	if err != nil {
		t.Fatal(err)
	}
	target, err := sqlgen.NewTarget(s.Dialect(), *found, sqlgen.TargetConfig{})
	if err != nil {
		t.Fatal(err)
	}
	b := sqlgen.NewBatch(s.Dialect())
	for _, values := range [][]debezium.Value{full, empty} {
		e := debezium.Event{Op: debezium.Create, After: debezium.Row{Shape: shape, Values: values}}
		if err := b.Add(target, &e); err != nil {
			t.Fatal(err)
		}
	}
	txn, err := s.Begin(t.Context(), txnsink.ID{Pipeline: s.config.Pipeline, Epoch: 1, Checkpoint: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := txn.Apply(t.Context(), b.Statements()); err != nil {
		t.Fatal(err)
	}
	if err := txn.Commit(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := query(t, url, "SET timezone = 'UTC'; SELECT * FROM every"); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestUnknownEnumLabelNamesItsRow(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	query(t, url, "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE TABLE t (id int PRIMARY KEY, m mood)")
	s := fenced(t, url, "SELECT 1")
	found, err := s.Table(t.Context(), schema.Name{Table: "t"})
	if err != nil {
		t.Fatal(err)
	}
	target, err := sqlgen.NewTarget(s.Dialect(), *found, sqlgen.TargetConfig{})
	if err != nil {
		t.Fatal(err)
	}
	shape := &debezium.Shape{Fields: []debezium.Field{{Name: "id", Type: debezium.Int32}, {Name: "m", Type: debezium.String}}}
	b := sqlgen.NewBatch(s.Dialect())
	for i, label := range []string{"sad", "ok", "sesame", ""} {
		e := debezium.Event{Op: debezium.Create, Offset: int64(i), After: debezium.Row{Shape: shape, Values: []debezium.Value{intValue(int64(i)), stringValue(label)}}}
		err := b.Add(target, &e)
		if i < 2 {
			if err != nil {
				t.Fatal(err)
			}
			continue
		}
		var row *sqlgen.RowError
		if ok := errors.As(err, &row); !ok || row.Class != sqlgen.InvalidValue || row.Column != "m" || row.Origin.Offset != int64(i) ||
			!strings.Contains(row.Error(), "ALTER TYPE mood ADD VALUE") || strings.Contains(row.Error(), "sesame") {
			t.Errorf("got %v", err)
		}
	}
}
