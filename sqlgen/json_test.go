package sqlgen

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

// messages writes what statements say, a message a line.
func messages(t *testing.T, list []Statement) string {
	t.Helper()
	var b strings.Builder
	for i := range list {
		got, err := Messages(&list[i])
		if err != nil {
			fmt.Fprintf(&b, "error %v\n", err)
		}
		for n, m := range got {
			fmt.Fprintf(&b, "%s %s = %s", m.Op, m.Key, m.Value)
			if m.Other != nil {
				fmt.Fprintf(&b, ", other %s", m.Other)
			}
			if list[i].Rows > 0 {
				fmt.Fprintf(&b, " (%v)", list[i].Origin(n))
			}
			b.WriteByte('\n')
			for _, text := range [][]byte{m.Key, m.Value, m.Other} {
				if text != nil && !json.Valid(text) {
					t.Errorf("not JSON: %s", text)
				}
			}
		}
	}
	return b.String()
}

func TestMessagesOfChanges(t *testing.T) {
	t.Parallel()
	keyed, bag := itemTable("id"), itemTable()
	pair := itemTable("b", "id")
	soft := itemTable("id")
	soft.Columns[2].Type = PostgresType("boolean")
	one, x := number32(1), textValue("it's \"\\\n\x00")
	create := func(id int) debezium.Event {
		return debezium.Event{Op: debezium.Create, After: itemRow(id, one, x), Offset: int64(id)}
	}
	left := func(from, to int) debezium.Event {
		return debezium.Event{Op: debezium.Delete, Key: idRow(from), NewKey: idRow(to)}
	}
	came := func(from, to int, b debezium.Value) debezium.Event {
		return debezium.Event{Op: debezium.Create, After: itemRow(to, one, b), OldKey: idRow(from)}
	}
	badID := itemRow(1, one, x)
	badID.Values[0] = nullValue
	var got strings.Builder
	for _, c := range []struct {
		name   string
		table  schema.Table
		config TargetConfig
		events []debezium.Event
	}{
		{"upserts", keyed, TargetConfig{}, []debezium.Event{create(1), {Op: debezium.Create, After: itemRow(3, nullValue, nullValue)}}},
		{"two columns of a key", pair, TargetConfig{}, []debezium.Event{create(1), {Op: debezium.Delete, Before: itemRow(2, one, x)}}},
		{"deletes", keyed, TargetConfig{}, []debezium.Event{{Op: debezium.Delete, Key: idRow(5), Offset: 8}}},
		{"unavailable", keyed, TargetConfig{}, []debezium.Event{{Op: debezium.Update, After: itemRow(1, one, unavailableValue)}}},
		{"soft deletes", soft, TargetConfig{Rules: Rules{Delete: DeleteSoft, Soft: "local"}}, []debezium.Event{create(1), {Op: debezium.Delete, Key: idRow(5)}}},
		{"truncate", keyed, TargetConfig{}, []debezium.Event{create(2), {Op: debezium.Truncate}, create(1)}},
		{"move", keyed, TargetConfig{}, []debezium.Event{left(1, 9), came(1, 9, unavailableValue)}},
		{"swap", keyed, TargetConfig{}, []debezium.Event{left(1, 99), came(1, 99, x), left(2, 1), came(2, 1, x), left(99, 2), came(99, 2, x)}},
		{"without a key", bag, TargetConfig{}, []debezium.Event{
			{Op: debezium.Delete, Before: itemRow(1, one, nullValue), Offset: 3},
			create(1), create(1),
			{Op: debezium.Update, Before: itemRow(2, one, x), After: itemRow(2, nullValue, x), Offset: 1},
		}},
		{"NULL where there must be none", bag, TargetConfig{}, []debezium.Event{create(1), {Op: debezium.Create, After: badID, Offset: 7}}},
	} {
		target, err := NewTarget(JSON{}, c.table, c.config)
		if err != nil {
			t.Fatal(err)
		}
		b := NewBatch(JSON{})
		for i := range c.events {
			if err := b.Add(target, &c.events[i]); err != nil {
				t.Fatal(err)
			}
		}
		list := b.Statements()
		fmt.Fprintf(&got, "%s\n%s\n", c.name, messages(t, list))
		sameStatements(t, decoded(t, list), list)
	}
	golden(t, "json-messages.golden", got.String())
}

func TestNullInANotNullColumnIsARowError(t *testing.T) {
	t.Parallel()
	target, rowErr := NewTarget(JSON{}, itemTable(), TargetConfig{})
	if rowErr != nil {
		t.Fatal(rowErr)
	}
	row := itemRow(1, nullValue, nullValue)
	row.Values[0] = nullValue
	b := NewBatch(JSON{})
	if err := b.Add(target, &debezium.Event{Op: debezium.Create, After: row, Offset: 7}); err != nil {
		t.Fatal(err)
	}
	_, err := Messages(&b.Statements()[0])
	var got *RowError
	if !errors.As(err, &got) || got.Class != NotNullViolation || got.Column != "id" || got.Origin.Offset != 7 {
		t.Errorf("got %v", err)
	}
}

func TestValuesOfJSON(t *testing.T) {
	t.Parallel()
	none := schema.Type{}
	money := schema.Type{Kind: schema.Decimal, Length: 10, Scale: 2}
	for _, c := range []struct {
		f       debezium.Field
		witness schema.Type
		v       debezium.Value
		want    string
	}{
		{decimal2, none, textValue("/w=="), `"-0.01"`},
		{anyField, money, textValue("1.5"), `"1.50"`},
		{variable, none, object("scale", intValue(3), "value", textValue("AQ==")), `"0.001"`},
		{longField, none, intValue(-9223372036854775808), "-9223372036854775808"},
		{unsigned, none, intValue(-1), "18446744073709551615"},
		{field(debezium.Float64, ""), none, digits("1.50"), "1.5"},
		{field(debezium.Float64, ""), none, digits("-0.0"), "0"},
		{field(debezium.Float64, ""), none, textValue("NaN"), `"NaN"`},
		{field(debezium.Float64, ""), none, digits("1E300"), "1e+300"},
		{field(debezium.Boolean, ""), none, debezium.Value{Kind: debezium.BoolValue, Num: 1}, "true"},
		{textField, none, textValue("a\"\\\x00\né\U0001F600"), `"a\"\\\u0000\u000aé😀"`},
		{dateField, none, intValue(-1), `"1969-12-31"`},
		{msField, none, intValue(1500), `"1970-01-01T00:00:01.5"`},
		{usField, none, intValue(-62167219200000001), `"0002-12-31T23:59:59.999999 BC"`},
		{nsField, none, intValue(1_999), `"1970-01-01T00:00:00.000001"`},
		{zoned, none, textValue("2020-01-02T03:04:05Z"), `"2020-01-02T03:04:05Z"`},
		{microTime, none, intValue(-1500000), `"-00:00:01.5"`},
		{bitsField("5"), none, textValue("FQ=="), `"10101"`},
		{field(debezium.Bytes, ""), none, textValue("3q0="), `"3q0="`},
		{field(debezium.Bytes, ""), none, debezium.Value{Kind: debezium.BytesValue, Text: "\xde\xad"}, `"3q0="`},
		{field(debezium.String, debeziumData+"Json"), none, textValue(`{"a": [1.50]}`), `{"a": [1.50]}`},
		{field(debezium.String, debeziumData+"Uuid"), none, textValue("00112233-4455-6677-8899-AABBCCDDEEFF"), `"00112233-4455-6677-8899-aabbccddeeff"`},
		{field(debezium.String, debeziumData+"Enum", "allowed", `a\,b`), none, textValue(`a\,b`), `"a,b"`},
		{field(debezium.Struct, debeziumData+"geometry.Point"), none, object("wkb", textValue("AQ=="), "srid", nullValue), `{"wkb":"AQ==","srid":null}`},
		{field(debezium.Map, ""), none, object("a", textValue("1"), "b", nullValue), `{"a":"1","b":null}`},
		{debezium.Field{Name: "f", Type: debezium.Array, Items: &dateField}, none, list(intValue(0), nullValue), `["1970-01-01",null]`},
		{anyField, none, list(intValue(1), textValue("x")), `[1,"x"]`},
	} {
		enc, err := JSON{}.Encoder(c.f, c.witness, schema.Name{Table: "t"}, schema.Column{Name: "c", Type: c.witness}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := enc([]byte("before"), &c.v)
		if want := "before" + c.want; err != nil || string(got) != want || !json.Valid(got[len("before"):]) {
			t.Errorf("%+v of %v: got %s (%v), want %s", c.v, c.f, got, err, want)
		}
	}
	for _, c := range []struct {
		f debezium.Field
		v debezium.Value
	}{
		{field(debezium.String, debeziumData+"Json"), textValue("{")}, {longField, textValue("x")}, {field(debezium.Bytes, ""), textValue("?")},
	} {
		enc, err := JSON{}.Encoder(c.f, schema.Type{}, schema.Name{Table: "t"}, schema.Column{Name: "c"}, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := enc(nil, &c.v); err == nil {
			t.Errorf("%v was taken as %s", c.v, got)
		}
	}
}

func TestTableChangesOfJSON(t *testing.T) {
	t.Parallel()
	base := schema.Table{
		Name: schema.Name{Table: "items"}, PrimaryKey: []string{"id"},
		Columns: []schema.Column{
			{Name: "id", Type: schema.Type{Kind: schema.Int32}, NotNull: true},
			{Name: "a", Type: schema.Type{Kind: schema.Int32}, NotNull: true},
			{Name: "b", Type: schema.Type{Kind: schema.Text}},
		},
	}
	changed := func(change func(*schema.Table)) *schema.Table {
		out := base
		out.Columns = append([]schema.Column(nil), base.Columns...)
		change(&out)
		return &out
	}
	local := changed(func(t *schema.Table) { t.Columns = append(t.Columns, schema.Column{Name: "local"}) })
	for name, c := range map[string]struct {
		e    Evolution
		kind DDLKind
		want TableChange
	}{
		"new":    {Evolution{To: &base}, CreateTable, TableChange{Op: OpCreate, Name: base.Name, Table: &base}},
		"gone":   {Evolution{Current: &base, From: &base}, DropTable, TableChange{Op: OpDrop, Name: base.Name}},
		"kept":   {Evolution{Current: &base, From: &base, Policy: schema.Lenient}, "", TableChange{}},
		"same":   {Evolution{Current: local, From: &base, To: &base}, "", TableChange{}},
		"ignore": {Evolution{Current: &base, From: &base, To: local, Policy: schema.Ignore}, "", TableChange{}},
		"added": {
			Evolution{Current: &base, From: &base, To: local}, AddColumn, TableChange{Op: OpAlter, Name: base.Name, Table: local},
		},
		"dropped beside a column of the target's own": {
			Evolution{Current: local, From: &base, To: changed(func(t *schema.Table) { t.Columns = t.Columns[:2] })},
			DropColumn,
			TableChange{Op: OpAlter, Name: base.Name, Table: changed(func(t *schema.Table) { t.Columns[2] = schema.Column{Name: "local"} })},
		},
		"dropped, lenient": {
			Evolution{Current: &base, From: &base, To: changed(func(t *schema.Table) { t.Columns = []schema.Column{t.Columns[0], t.Columns[2]} }), Policy: schema.Lenient},
			ChangeType,
			TableChange{Op: OpAlter, Name: base.Name, Table: changed(func(t *schema.Table) { t.Columns[1].NotNull = false })},
		},
		"traded names": {
			Evolution{
				Current: &base, From: &base, Renames: []schema.Rename{{From: "a", To: "b"}, {From: "b", To: "a"}},
				To: changed(func(t *schema.Table) { t.Columns[1].Name, t.Columns[2].Name = "b", "a" }),
			},
			RenameColumn,
			TableChange{
				Op: OpAlter, Name: base.Name, Renames: []schema.Rename{{From: "a", To: "b"}, {From: "b", To: "a"}},
				Table: changed(func(t *schema.Table) { t.Columns[1].Name, t.Columns[2].Name = "b", "a" }),
			},
		},
		"dropped under a name that another takes": {
			Evolution{
				Current: &base, From: &base, Renames: []schema.Rename{{From: "b", To: "a"}},
				To: changed(func(t *schema.Table) { t.Columns = []schema.Column{t.Columns[0], {Name: "a", Type: t.Columns[2].Type}} }),
			},
			DropColumn,
			TableChange{Op: OpAlter, Name: base.Name, Renames: []schema.Rename{{From: "b", To: "a"}}, Table: changed(func(t *schema.Table) {
				t.Columns = []schema.Column{t.Columns[0], {Name: "a", Type: t.Columns[2].Type}}
			})},
		},
		"renamed": {
			Evolution{Current: &base, From: &base, To: changed(func(t *schema.Table) { t.Name.Table = "goods" })},
			RenameTable,
			TableChange{Op: OpAlter, Name: base.Name, Table: changed(func(t *schema.Table) { t.Name.Table = "goods" })},
		},
		"another key": {
			Evolution{Current: &base, From: &base, To: changed(func(t *schema.Table) { t.PrimaryKey = []string{"a"} })},
			ChangeKey,
			TableChange{Op: OpAlter, Name: base.Name, Table: changed(func(t *schema.Table) { t.PrimaryKey = []string{"a"} })},
		},
	} {
		plan := JSON{}.Evolve(c.e)
		if len(plan.Refused) > 0 || len(plan.Statements) > 1 || (len(plan.Statements) == 0) != (c.kind == "") {
			t.Errorf("%s: got %+v", name, plan)
			continue
		}
		if c.kind == "" {
			continue
		}
		got, err := ParseTableChange(plan.Statements[0].SQL)
		if err != nil || plan.Statements[0].Kind != c.kind || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %s %+v (%v)\nwant %s %+v", name, plan.Statements[0].Kind, got, err, c.kind, c.want)
		}
	}
	if plan := (JSON{}).Evolve(Evolution{Current: &base, From: &base, To: local, Policy: schema.Stop}); plan.Err() == nil {
		t.Error("schema.evolve: stop let a change pass")
	}
	for _, sql := range []string{"", "DROP TABLE x", "{}", `{"op":"create"}`} {
		if c, err := ParseTableChange(sql); err == nil {
			t.Errorf("%q was taken as %+v", sql, c)
		}
	}
}

func TestMessagesOfSQL(t *testing.T) {
	t.Parallel()
	d := SQLText{}
	item := schema.Table{
		Name: schema.Name{Table: "item"}, PrimaryKey: []string{"id"},
		Columns: []schema.Column{{Name: "id", Type: MySQLType("int"), NotNull: true}, {Name: "a", Type: MySQLType("int")}, {Name: "b", Type: MySQLType("text")}},
	}
	target, rowErr := NewTarget(d, item, TargetConfig{})
	if rowErr != nil {
		t.Fatal(rowErr)
	}
	b := NewBatch(d)
	for _, e := range []debezium.Event{
		{Op: debezium.Truncate},
		{Op: debezium.Create, After: itemRow(1, number32(1), textValue("it's"))},
		{Op: debezium.Delete, Key: idRow(5)},
		{Op: debezium.Update, After: itemRow(2, number32(1), unavailableValue)},
	} {
		if err := b.Add(target, &e); err != nil {
			t.Fatal(err)
		}
	}
	list := b.Statements()
	var got strings.Builder
	for i := range list {
		parts, err := Messages(&list[i])
		if err != nil || len(parts) != 1 {
			t.Fatalf("%+v: %v", list[i], err)
		}
		fmt.Fprintf(&got, "%s %s\n%s\n", parts[0].Op, parts[0].Key, parts[0].Value)
	}
	sameStatements(t, decoded(t, list), list)
	wider := item
	wider.Columns = append(wider.Columns[:2:2], schema.Column{Name: "b", Type: MySQLType("longtext")})
	for _, e := range []Evolution{{To: &item}, {Current: &item, From: &item, To: &wider}, {Current: &item, From: &item}} {
		plan := d.Evolve(e)
		c, err := ParseTableChange(plan.Statements[0].SQL)
		if err != nil || c.Table != nil && !reflect.DeepEqual(c.Table, e.To) {
			t.Errorf("%+v: %v", c, err)
		}
		fmt.Fprintf(&got, "%s %s\n%s\n", c.Op, c.Name, c.SQL)
	}
	if c, err := ParseTableChange(list[0].SQL); err != nil || c.Op != OpTruncate || c.Name != item.Name || c.SQL == "" {
		t.Errorf("truncate: %+v, %v", c, err)
	}
	golden(t, "sql-messages.golden", got.String())
}
