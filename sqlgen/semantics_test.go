package sqlgen

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

// TestEverySemanticTypeIsDocumented looks for each name that is known here in docs/types.md, whose rows a test of the
// command sends as events.
func TestEverySemanticTypeIsDocumented(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile(filepath.Join("..", "docs", "types.md"))
	if err != nil {
		t.Fatal(err)
	}
	for name := range semantics {
		if !strings.Contains(string(doc), "`"+name+"`") {
			t.Errorf("docs/types.md has no row of %s", name)
		}
	}
}

// fuzzColumns has a column of each encoder, and some that are written as text.
var fuzzColumns = []string{
	"boolean", "smallint", "integer", "bigint", "real", "double precision", "numeric(10,2)", "numeric", "money",
	"text", "character varying(5)", "character(5)", "bytea", "uuid", "json", "jsonb", "hstore", "date", "time without time zone",
	"time(3) without time zone", "time with time zone", "timestamp without time zone", "timestamp(3) with time zone", "interval", "interval(0)",
	"bit(9)", "bit varying", "inet", "point", "geometry", "vector(3)", "integer[]", "numeric(5,2)[]", "bytea[]", "jsonb[]",
}

// FuzzSemantics promises that no value of any semantic type crashes an encoder, that the bytes it makes are bounded by
// the value's, and that the same value always gives the same bytes.
func FuzzSemantics(f *testing.F) {
	names := slices.Sorted(maps.Keys(semantics))
	for i, s := range []string{"", "AQ==", "1e131071", "-0.5", "infinity", "0044-03-15Z BC", "P1Y-2M3DT-4.5S", "12:34:56.123456789Z", `{"a":null}`, "10:00:00+02"} {
		f.Add(uint8(i), uint8(i), s, int64(i)<<40, "scale", s)
	}
	f.Fuzz(func(t *testing.T, which, kind uint8, s string, n int64, param, value string) {
		d := field(debezium.FieldType(kind%13), names[int(which)%len(names)], param, value)
		d.Items = &debezium.Field{Type: debezium.String, Semantic: names[int(kind)%len(names)]}
		number := debezium.Value{Kind: debezium.NumberValue, Text: s}
		values := []debezium.Value{
			textValue(s), intValue(n),
			{Kind: debezium.BoolValue, Num: n & 1},
			{Kind: debezium.BytesValue, Text: s},
			list(textValue(s), nullValue, intValue(n), list(textValue(s))),
			object("scale", intValue(n), "value", textValue(s), "wkb", textValue(s), "srid", intValue(n), "x", intValue(n), "y", textValue(s), s+"!", nullValue),
		}
		if isNumber(s) { // a decoder makes no others
			values = append(values, number)
		}
		check := func(column string, encode func(v debezium.Value) ([]byte, error)) {
			for _, v := range values {
				got, err := encode(v)
				if err != nil {
					continue
				}
				if bound := 1<<20 + 100*len(s); len(got) > bound && param != "length" {
					t.Fatalf("%s into %s: %d bytes became %d", d.Semantic, column, len(s), len(got))
				}
				if again, err := encode(v); err != nil || string(again) != string(got) {
					t.Fatalf("%s into %s: %x, then %x, %v", d.Semantic, column, got, again, err)
				}
			}
		}
		o := Options{Binary: "hex", Nul: "strip"}
		for _, column := range fuzzColumns {
			check(column, func(v debezium.Value) ([]byte, error) { return encodeOne(d, schema.Type{}, column, v, o) })
		}
		for _, column := range append(mysqlTypes, "vector(3)", "uuid", "inet6") {
			check(column, func(v debezium.Value) ([]byte, error) { return encodeMySQL(d, column, v, o) })
		}
	})
}
