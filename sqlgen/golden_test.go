package sqlgen

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (make it with -update)", err)
	}
	if got != string(want) {
		t.Errorf("%s differs (see the difference with -update):\n got\n%s\nwant\n%s", path, got, want)
	}
}

// describe writes statements for people: their SQL, what they promise, where each row came from, and their arguments
// as they are sent.
func describe(list []Statement) string {
	var b strings.Builder
	for _, s := range list {
		fmt.Fprintf(&b, "kind %d, rows %d, want %d\n%s\n", s.Kind, s.Rows, s.Want, s.SQL)
		for i, a := range s.Args {
			array := a.(Array)
			fmt.Fprintf(&b, "  $%d type %d of %d: %x\n", i+1, array.OID, array.Elem, array.Data[arrayHeader:])
		}
		for i := range s.Rows {
			fmt.Fprintf(&b, "  row %d: %v\n", i, s.Origin(i))
		}
	}
	return b.String()
}

func TestStatementsOfPostgres(t *testing.T) {
	t.Parallel()
	keyed, bag := itemTable("id"), itemTable()
	byConfiguration := TargetConfig{Rules: Rules{Key: []string{"id"}}}
	folding := itemTable("b")
	folding.Columns[3].Folds = true
	identity := itemTable("id")
	identity.Columns[0].AutoIncrement = true
	odd := schema.Table{
		Name: schema.Name{Table: `we"ird`}, PrimaryKey: []string{"Group", "mood"},
		Columns: []schema.Column{
			{Name: "Group", Type: PostgresType("uuid")},
			{Name: "mood", Type: PostgresType(`shop."Mood"`)},
			{Name: "ten percent", Type: PostgresType("json")},
		},
	}
	oddShape := &debezium.Shape{Fields: []debezium.Field{
		{Name: "Group", Type: debezium.String}, {Name: "mood", Type: debezium.String}, {Name: "ten percent", Type: debezium.String},
	}}
	oddRow := debezium.Row{Shape: oddShape, Values: []debezium.Value{
		textValue("00112233-4455-6677-8899-aabbccddeeff"), textValue("glad"), textValue(`{"a":1}`),
	}}
	softKeyed, softBag, at := itemTable("id"), itemTable(), debezium.Source{TsMs: 1_700_000_000_123}
	softKeyed.Columns[2].Type, softBag.Columns[2].Type = PostgresType("timestamp with time zone"), PostgresType("boolean")
	soft := TargetConfig{Rules: Rules{Delete: DeleteSoft, Soft: "local"}}
	one, x := number32(1), textValue("x")
	create := func(id int) debezium.Event {
		return debezium.Event{Op: debezium.Create, After: itemRow(id, one, x), Offset: int64(id)}
	}
	left := func(from, to int) debezium.Event {
		return debezium.Event{Op: debezium.Delete, Key: idRow(from), NewKey: idRow(to)}
	}
	came := func(from, to int, b debezium.Value) debezium.Event {
		return debezium.Event{Op: debezium.Create, After: itemRow(to, one, b), OldKey: idRow(from)}
	}
	for _, c := range []struct {
		name   string
		table  schema.Table
		config TargetConfig
		events []debezium.Event
	}{
		{"upserts", keyed, TargetConfig{}, []debezium.Event{create(1), create(2), {Op: debezium.Create, After: itemRow(3, nullValue, nullValue)}}},
		{"upserts-without-index", bag, byConfiguration, []debezium.Event{create(1)}},
		{"upserts-key-only", keyed, TargetConfig{}, []debezium.Event{{Op: debezium.Create, After: idRow(1)}}},
		{"folding", folding, TargetConfig{}, []debezium.Event{create(1), {Op: debezium.Delete, Before: itemRow(2, one, textValue("X"))}}},
		{"upserts-identity", identity, TargetConfig{}, []debezium.Event{create(1)}},
		{"upserts-odd-names", odd, TargetConfig{}, []debezium.Event{{Op: debezium.Create, After: oddRow}}},
		{"deletes", keyed, TargetConfig{}, []debezium.Event{{Op: debezium.Delete, Key: idRow(5), Offset: 8}}},
		{"updates", keyed, TargetConfig{}, []debezium.Event{{Op: debezium.Update, After: itemRow(1, one, unavailableValue)}}},
		{"deletes-soft", softKeyed, soft, []debezium.Event{create(1), {Op: debezium.Delete, Key: idRow(5), Source: at}, {Op: debezium.Delete, Key: idRow(1), Source: at}}},
		{"deletes-soft-bag", softBag, soft, []debezium.Event{create(1), {Op: debezium.Delete, Before: itemRow(2, one, x), Source: at}}},
		{"columns", keyed, TargetConfig{Rules: Rules{Exclude: []string{"a"}, Rename: map[string]string{"b": "local"}}}, []debezium.Event{create(1)}},
		{"truncate", keyed, TargetConfig{}, []debezium.Event{{Op: debezium.Truncate}, create(1)}},
		{"move", keyed, TargetConfig{}, []debezium.Event{left(1, 9), came(1, 9, x)}},
		{"move-partial", keyed, TargetConfig{}, []debezium.Event{left(1, 9), came(1, 9, unavailableValue)}},
		{"move-swap", keyed, TargetConfig{}, []debezium.Event{
			left(1, 99), came(1, 99, x), left(2, 1), came(2, 1, unavailableValue), left(99, 2), came(99, 2, x),
		}},
		{"bag-inserts", bag, TargetConfig{}, []debezium.Event{create(1), create(1)}},
		{"bag-deletes", bag, TargetConfig{}, []debezium.Event{
			{Op: debezium.Delete, Before: itemRow(1, one, x), Offset: 1},
			{Op: debezium.Delete, Before: itemRow(1, one, x), Offset: 2},
			{Op: debezium.Delete, Before: itemRow(1, one, nullValue), Offset: 3},
		}},
		{"bag-replacements", bag, TargetConfig{}, []debezium.Event{
			{Op: debezium.Update, Before: itemRow(1, one, x), After: itemRow(1, nullValue, x), Offset: 1},
			{Op: debezium.Update, Before: itemRow(1, one, x), After: itemRow(2, nullValue, x), Offset: 2},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			target, err := NewTarget(Postgres{}, c.table, c.config)
			if err != nil {
				t.Fatal(err)
			}
			b := NewBatch(Postgres{})
			for i := range c.events {
				if err := b.Add(target, &c.events[i]); err != nil {
					t.Fatal(err)
				}
			}
			golden(t, c.name+".golden", describe(b.Statements()))
		})
	}
}

func TestSlicesOfAStatementCarryItsRows(t *testing.T) {
	t.Parallel()
	target := mustTarget(t, itemTable())
	b := NewBatch(Postgres{})
	for i := range 5 {
		e := debezium.Event{Op: debezium.Update, Before: itemRow(1, number32(i/2), nullValue), After: itemRow(2, number32(i), nullValue), Offset: int64(i)}
		if err := b.Add(target, &e); err != nil {
			t.Fatal(err)
		}
	}
	whole := b.Statements()[0]
	for i := range 5 {
		for j := i + 1; j <= 5; j++ {
			part := whole.Slice(i, j)
			if part.SQL != whole.SQL || part.Rows != j-i || part.Want != int64(j-i) || (part.Slice == nil) != (j-i < 2) {
				t.Errorf("slice [%d, %d): %+v", i, j, part)
			}
			for k := range part.Rows {
				if got, want := part.Origin(k), whole.Origin(i+k); got != want {
					t.Errorf("slice [%d, %d) row %d: origin %v, want %v", i, j, k, got, want)
				}
			}
			if j-i >= 2 {
				if got, want := describe([]Statement{part.Slice(1, 2)}), describe([]Statement{whole.Slice(i+1, i+2)}); got != want {
					t.Errorf("slice of slice [%d, %d):\n got %s\nwant %s", i, j, got, want)
				}
			}
		}
	}
}

func TestTablesAreFilledParentsFirstAndEmptiedChildrenFirst(t *testing.T) {
	t.Parallel()
	parent, child := itemTable("id"), itemTable("id")
	parent.Name.Table, child.Name.Table = "parent", "child"
	child.References = []schema.Name{parent.Name}
	p, c := mustTarget(t, parent), mustTarget(t, child)
	b := NewBatch(Postgres{})
	for _, target := range []*Target{c, p} {
		for _, e := range []debezium.Event{
			{Op: debezium.Create, After: itemRow(1, nullValue, nullValue)}, {Op: debezium.Delete, Key: idRow(2)},
		} {
			if err := b.Add(target, &e); err != nil {
				t.Fatal(err)
			}
		}
	}
	var got []string
	for _, s := range b.Statements() {
		got = append(got, fmt.Sprintf("%s %d", s.Table.Table, s.Kind))
	}
	want := fmt.Sprintf("[child %d parent %d parent %d child %d]", DeleteRows, DeleteRows, UpsertRows, UpsertRows)
	if fmt.Sprint(got) != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCreatedTableHoldsEveryTypeOfMySQL(t *testing.T) {
	t.Parallel()
	source := schema.Table{PrimaryKey: []string{"id"}}
	for _, c := range []struct {
		name string
		t    schema.Type
	}{
		{"id", schema.Type{Kind: schema.Uint64}},
		{"tiny", schema.Type{Kind: schema.Int8}},
		{"flag", schema.Type{Kind: schema.Int8, Length: 1}},
		{"tiny_u", schema.Type{Kind: schema.Uint8}},
		{"small", schema.Type{Kind: schema.Int16}},
		{"small_u", schema.Type{Kind: schema.Uint16}},
		{"medium", schema.Type{Kind: schema.Int24}},
		{"medium_u", schema.Type{Kind: schema.Uint24}},
		{"int", schema.Type{Kind: schema.Int32}},
		{"int_u", schema.Type{Kind: schema.Uint32}},
		{"big", schema.Type{Kind: schema.Int64}},
		{"price", schema.Type{Kind: schema.Decimal, Length: 12, Scale: 2}},
		{"any", schema.Type{Kind: schema.Decimal}},
		{"f", schema.Type{Kind: schema.Float32}},
		{"d", schema.Type{Kind: schema.Float64}},
		{"bit1", schema.Type{Kind: schema.Bit, Length: 1}},
		{"bit9", schema.Type{Kind: schema.Bit, Length: 9}},
		{"year", schema.Type{Kind: schema.Year}},
		{"date", schema.Type{Kind: schema.Date}},
		{"time0", schema.Type{Kind: schema.Time}},
		{"time6", schema.Type{Kind: schema.Time, Scale: 6}},
		{"datetime3", schema.Type{Kind: schema.Timestamp, Scale: 3}},
		{"instant", schema.Type{Kind: schema.TimestampTZ, Scale: -1}},
		{"c", schema.Type{Kind: schema.Char, Length: 3}},
		{"v", schema.Type{Kind: schema.Varchar, Length: 20}},
		{"t", schema.Type{Kind: schema.Text}},
		{"b", schema.Type{Kind: schema.Bytes, Length: 16}},
		{"e", schema.Type{Kind: schema.Enum}},
		{"s", schema.Type{Kind: schema.Set}},
		{"j", schema.Type{Kind: schema.JSON}},
		{"g", schema.Type{Kind: schema.Geometry}},
		{"vec", schema.Type{Kind: schema.Vector, Length: 3}},
		{"u", schema.Type{Kind: schema.UUID}},
		{strings.Repeat("long", 20), schema.Type{Kind: schema.Text}},
	} {
		source.Columns = append(source.Columns, schema.Column{Name: c.name, Type: c.t, NotNull: c.name == "id"})
	}
	table, err := Postgres{}.TargetTable(source, schema.Name{Schema: "shop", Table: "all"}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "create-table.golden", strings.Join(Postgres{}.CreateTable(table), ";\n")+"\n")

	extended := Postgres{Geometry: "gis.geometry", Geography: "gis.geography", Vector: "vector"}
	source.Columns = append(source.Columns,
		schema.Column{Name: "geo", Type: schema.Type{Kind: schema.Geometry, Native: "geography"}},
		schema.Column{Name: "long", Type: schema.Type{Kind: schema.Vector, Length: pgMaxVector + 1}},
		schema.Column{Name: "open", Type: schema.Type{Kind: schema.Vector}},
		schema.Column{Name: "doubles", Type: schema.Type{Kind: schema.Array, Native: "vector", Elem: &schema.Type{Kind: schema.Float64}}})
	if table, err = extended.TargetTable(source, schema.Name{Table: "all"}, Options{}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]schema.Type{
		"g":       {Kind: schema.Geometry, Native: "gis.geometry"},
		"geo":     {Kind: schema.Geometry, Native: "gis.geography"},
		"vec":     {Kind: schema.Vector, Length: 3, Native: "vector(3)"},
		"open":    {Kind: schema.Vector, Native: "vector"},
		"long":    {Kind: schema.Other, Native: "real[]"},
		"doubles": {Kind: schema.Vector, Native: "vector"},
	} {
		if c, _ := table.Column(name); c == nil || c.Type.Kind != want.Kind || c.Type.Length != want.Length || c.Type.Native != want.Native {
			t.Errorf("with extensions, column %s: got %+v, want %+v", name, c, want)
		}
	}

	other, err := Postgres{}.TargetTable(source, schema.Name{Table: "all"}, Options{Boolean: "boolean", Time: "time", JSON: "json"})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"flag": "boolean", "tiny": "smallint", "time0": "time(0) without time zone", "j": "json"} {
		if c, _ := other.Column(name); c == nil || c.Type.Native != want {
			t.Errorf("column %s: got %+v, want type %s", name, c, want)
		}
	}
}
