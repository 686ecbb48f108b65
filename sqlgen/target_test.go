package sqlgen

import (
	"errors"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

func textColumns(names ...string) schema.Table {
	t := schema.Table{Name: schema.Name{Table: "t"}, PrimaryKey: names[:1]}
	for _, n := range names {
		t.Columns = append(t.Columns, schema.Column{Name: n, Type: PostgresType("text")})
	}
	return t
}

func textRow(pairs ...string) debezium.Row {
	r := debezium.Row{Shape: &debezium.Shape{}}
	for i := 0; i < len(pairs); i += 2 {
		r.Shape.Fields = append(r.Shape.Fields, debezium.Field{Name: pairs[i], Type: debezium.String})
		r.Values = append(r.Values, textValue(pairs[i+1]))
	}
	return r
}

func TestColumnsAreFoundByNameThenByNameInAnotherCase(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70)
	generated := textColumns("id", "sum")
	generated.Columns[1].Generated = true
	for name, c := range map[string]struct {
		table schema.Table
		row   debezium.Row
		want  Class // empty: it is added
		text  string
	}{
		"exact among cases":     {textColumns("id", "Group", "group"), textRow("id", "1", "group", "g"), "", "1|-|g"},
		"another case":          {textColumns("id", "Name"), textRow("ID", "1", "NAME", "n"), "", "1|n"},
		"shortened":             {textColumns("id", Postgres{}.ShortName(long)), textRow("id", "1", long, "n"), "", "1|n"},
		"adjusted for Avro":     {textColumns("id", "user-name", "été", "2nd"), textRow("id", "1", "user_name", "n", "_t_", "e", "_2nd", "2"), "", "1|n|e|2"},
		"in Unicode for Avro":   {textColumns("id", "user-name", "a_b"), textRow("id", "1", "user_u002dname", "n", "a_u005fb", "b"), "", "1|n|b"},
		"exact and adjusted":    {textColumns("id", "user-name", "user_name"), textRow("id", "1", "user_name", "n"), "", "1|-|n"},
		"two adjusted ones fit": {textColumns("id", "user-name", "user.name"), textRow("id", "1", "user_name", "n"), AmbiguousColumn, ""},
		"generated is skipped":  {generated, textRow("id", "1", "sum", "2"), "", "1"},
		"two columns fit":       {textColumns("id", "Group", "group"), textRow("id", "1", "GROUP", "g"), AmbiguousColumn, ""},
		"two fields for one":    {textColumns("id", "group"), textRow("id", "1", "group", "a", "Group", "b"), AmbiguousColumn, ""},
		"no column":             {textColumns("id"), textRow("id", "1", "more", "x"), MissingColumn, ""},
		"no key":                {textColumns("id", "a"), textRow("a", "1"), KeyMismatch, ""},
		"a value does not pass": {textColumns("id", "a"), textRow("id", "1", "a", "\x00"), Unstorable, ""},
	} {
		target := mustTarget(t, c.table)
		b := NewBatch(Postgres{})
		err := b.Add(target, &debezium.Event{Op: debezium.Create, After: c.row, Partition: debezium.Partition{Topic: "t", ID: 2}, Offset: 7})
		if c.want != "" {
			var row *RowError
			if !errors.As(err, &row) || row.Class != c.want || row.Origin.Offset != 7 || row.Table.Table != "t" {
				t.Errorf("%s: got %v, want a %s of offset 7", name, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, e := range elements(changesOf(b).Upserts[0].Data) {
			if e == unsentElement {
				got = append(got, "-")
			} else {
				got = append(got, e[4:])
			}
		}
		if s := strings.Join(got, "|"); s != c.text {
			t.Errorf("%s: got %s, want %s", name, s, c.text)
		}
	}
}

// TestAdjustedNamesAreUndoneByTheSourcesTable: where the source's columns are known, a column of the target that happens
// to fit is not taken for one of them.
func TestAdjustedNamesAreUndoneByTheSourcesTable(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		source, target schema.Table
		want           Class // empty: it is added
	}{
		"adjusted at the source":    {textColumns("id", "user-name"), textColumns("id", "user-name"), ""},
		"called so at the source":   {textColumns("id", "user_name"), textColumns("id", "user_name"), ""},
		"two columns at the source": {textColumns("id", "user-name", "user.name"), textColumns("id", "user-name", "user.name"), AmbiguousColumn},
		"adjusted in the target":    {textColumns("id", "user-name"), textColumns("id", "user_name"), ""},
		"in neither":                {textColumns("id", "user-name"), textColumns("id", "name"), MissingColumn},
	} {
		target, err := NewTarget(Postgres{}, c.target, TargetConfig{Witness: &c.source})
		if err != nil {
			t.Fatal(err)
		}
		err = NewBatch(Postgres{}).Add(target, &debezium.Event{Op: debezium.Create, After: textRow("id", "1", "user_name", "n")})
		var row *RowError
		if c.want == "" && err != nil || c.want != "" && (!errors.As(err, &row) || row.Class != c.want) {
			t.Errorf("%s: got %v, want class %q", name, err, c.want)
		}
	}
}

func TestErrorNamesTheRow(t *testing.T) {
	t.Parallel()
	b := NewBatch(Postgres{})
	e := debezium.Event{Op: debezium.Create, After: textRow("id", "5", "a", "\x00"), Partition: debezium.Partition{Topic: "shop.t", ID: 2}, Offset: 7}
	err := b.Add(mustTarget(t, textColumns("id", "a")), &e)
	want := "unstorable_value: table t, column a, shop.t[2] offset 7, key id=5: "
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got %v, want %s…", err, want)
	}
}

func TestEqualKeysAreOneRowHoweverTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ column, one, other string }{
		{"numeric", "1.0", "1.00"},
		{"numeric", "-0", "0.000"},
		{"numeric", "1e2", "100"},
		{"double precision", "0", "-0.0"},
		{"real", "-0.0", "0.0"},
		{"character(4)", "a", "a "},
		{"jsonb", `{"b": 1.50, "a": [1, null, "x"], "c": -0.0}`, `{"a":[1.0e0,null,"x"],"c":0,"b":15E-1}`},
		{"uuid", "00112233445566778899AABBCCDDEEFF", "{00112233-4455-6677-8899-aabbccddeeff}"},
	} {
		table := textColumns("id")
		table.Columns[0].Type = PostgresType(c.column)
		target := mustTarget(t, table)
		one, other := textRow("id", c.one), textRow("id", c.other)
		if strings.HasPrefix(c.column, "double") || c.column == "real" {
			one.Shape.Fields[0].Type, other.Shape.Fields[0].Type = debezium.Float64, debezium.Float64
		}
		got := fold(t, target, debezium.Event{Op: debezium.Create, After: one}, debezium.Event{Op: debezium.Create, After: other})
		if len(got.Upserts) != 1 {
			t.Errorf("%s: %s and %s are %d rows, want 1", c.column, c.one, c.other, len(got.Upserts))
		}
	}
}

func TestRowWithoutAKeyNeedsItsWholeBeforeImage(t *testing.T) {
	t.Parallel()
	target := mustTarget(t, itemTable())
	for name, e := range map[string]debezium.Event{
		"no before":             {Op: debezium.Update, After: itemRow(1, nullValue, nullValue)},
		"an unavailable value":  {Op: debezium.Delete, Before: itemRow(1, nullValue, unavailableValue)},
		"a delete without any":  {Op: debezium.Delete, Key: idRow(1)},
		"an absent value in it": {Op: debezium.Delete, Before: itemRow(1, debezium.Value{}, nullValue)},
	} {
		var row *RowError
		if err := NewBatch(Postgres{}).Add(target, &e); !errors.As(err, &row) || row.Class != KeyMismatch {
			t.Errorf("%s: got %v, want %s", name, err, KeyMismatch)
		}
	}
}

func TestBatchIsEmptyAfterReset(t *testing.T) {
	t.Parallel()
	target := mustTarget(t, itemTable("id"))
	b := NewBatch(Postgres{})
	for range 3 {
		for _, e := range []debezium.Event{
			{Op: debezium.Create, After: itemRow(1, nullValue, nullValue)},
			{Op: debezium.Delete, Key: idRow(1), NewKey: idRow(2)},
			{Op: debezium.Tombstone},
		} {
			if err := b.Add(target, &e); err != nil {
				t.Fatal(err)
			}
		}
		if n := len(b.Statements()); n != 1 {
			t.Errorf("got %d statements, want 1", n)
		}
		b.Reset()
		if n := len(b.Statements()); n != 0 {
			t.Errorf("after Reset: %d statements", n)
		}
	}
}

func TestTypesAreReadFromTheCatalog(t *testing.T) {
	t.Parallel()
	for native, want := range map[string]schema.Type{
		"numeric(10,2)":                  {Kind: schema.Decimal, Length: 10, Scale: 2},
		"numeric(3,-2)":                  {Kind: schema.Decimal, Length: 3, Scale: -2},
		"numeric":                        {Kind: schema.Decimal},
		"timestamp(3) without time zone": {Kind: schema.Timestamp, Scale: 3},
		"timestamp with time zone":       {Kind: schema.TimestampTZ, Scale: 6},
		"interval day to second(3)":      {Kind: schema.Interval, Scale: 3},
		"character varying(20)":          {Kind: schema.Varchar, Length: 20},
		"character varying":              {Kind: schema.Varchar},
		"character(1)":                   {Kind: schema.Char, Length: 1},
		"bit(9)":                         {Kind: schema.Bit, Length: 9},
		`"char"`:                         {Kind: schema.Other},
		"mood":                           {Kind: schema.Other},
		`shop."Mood (x)"`:                {Kind: schema.Other},
		"real[]":                         {Kind: schema.Other},
		"numeric(10,2)[]":                {Kind: schema.Other},
		"interval(3)[]":                  {Kind: schema.Other},
		"public.vector(3)":               {Kind: schema.Vector, Length: 3},
		"geometry(Point,4326)":           {Kind: schema.Geometry},
	} {
		want.Native = native
		if got := PostgresType(native); got.Kind != want.Kind || got.Length != want.Length || got.Scale != want.Scale || got.Native != want.Native {
			t.Errorf("%s: got %+v, want %+v", native, got, want)
		}
	}
}

func TestShortNamesAreDistinctAndWholeCharacters(t *testing.T) {
	t.Parallel()
	base := strings.Repeat("é", 40)
	one, other := Postgres{}.ShortName(base+"1"), Postgres{}.ShortName(base+"2")
	if one == other || len(one) > 63 || strings.ToValidUTF8(one, "") != one || one != (Postgres{}.ShortName(base+"1")) {
		t.Errorf("got %q and %q", one, other)
	}
	if got := (Postgres{}).ShortName(strings.Repeat("x", 63)); got != strings.Repeat("x", 63) {
		t.Errorf("a name of 63 bytes became %q", got)
	}
}
