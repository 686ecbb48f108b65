package sqlgen

import (
	"reflect"
	"slices"
	"testing"

	"replicator/schema"
)

// TestWhatTheTargetChoseStays alters the target's table first, and then plans a change of the source's.
func TestWhatTheTargetChoseStays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		chosen func(target *schema.Table)
		change func(source *schema.Table)
		rename []schema.Rename
		want   []string // statements
		refuse string
	}{
		{
			"nothing changed", func(x *schema.Table) {
				x.Columns[1].Type, x.Columns[2].Default, x.PrimaryKey, x.Indexes = PostgresType("text"), new("1"), nil, nil
				x.Columns = x.Columns[:4]
			}, func(*schema.Table) {}, nil, nil, "",
		},
		{"wider already", func(x *schema.Table) { x.Columns[1].Type = PostgresType("text") }, retype(1, schema.Type{Kind: schema.Varchar, Length: 50}), nil, nil, ""},
		{"wider than narrowed", func(x *schema.Table) { x.Columns[1].Type = PostgresType("text") }, retype(1, schema.Type{Kind: schema.Varchar, Length: 5}), nil, nil, ""},
		{
			"its own type is too narrow", func(x *schema.Table) { x.Columns[1].Type = PostgresType("character varying(30)") }, retype(1, schema.Type{Kind: schema.Varchar, Length: 50}), nil,
			[]string{`ALTER TABLE "shop"."items" ALTER COLUMN "code" TYPE character varying(50)`},
			"",
		},
		{
			"a type that nothing is known of", func(x *schema.Table) { x.Columns[4].Type = PostgresType("shop.kinds") }, retype(4, schema.Type{Kind: schema.Varchar, Length: 9}), nil, nil,
			`schema change refused: change_type of table shop.items, column kind: from shop.kinds to character varying(9): no conversion between these types is known that keeps every value; change the column yourself`,
		},
		{"its own default", func(x *schema.Table) { x.Columns[1].Default = new("'own'::text") }, func(x *schema.Table) { x.Columns[1].Default = new("y") }, nil, nil, ""},
		{"its own key", func(x *schema.Table) { x.PrimaryKey = []string{"code"} }, func(x *schema.Table) { x.PrimaryKey = nil }, nil, nil, ""},
		{"its own comment", func(x *schema.Table) { x.Comment = "mine" }, func(x *schema.Table) { x.Comment = "theirs" }, nil, nil, ""},
		{"its own column", func(x *schema.Table) { x.Columns = append(x.Columns, schema.Column{Name: "n"}) }, add("n", schema.Type{Kind: schema.Int32}, false, ""), nil, nil, ""},
		{"a column that it dropped", func(x *schema.Table) { x.Columns = x.Columns[:4] }, retype(4, schema.Type{Kind: schema.Text}), nil, nil, ""},
		{"case of names", func(x *schema.Table) { x.Columns[2].Name = "PRICE" }, drop("price"), nil, []string{`ALTER TABLE "shop"."items" DROP COLUMN IF EXISTS "PRICE"`}, ""},
		{
			"a name that is taken", func(x *schema.Table) { x.Columns = append(x.Columns, schema.Column{Name: "sku"}) }, rename("code", "sku"),
			[]schema.Rename{{From: "code", To: "sku"}},
			nil,
			`schema change refused: rename_column of table shop.items, column code: it is to be called "sku", and the target's table has a column of that name already: rename or drop that one`,
		},
		{
			"a row of renames, half done", func(x *schema.Table) { x.Columns[2].Name = "cost" }, rename("price", "cost", "code", "price"),
			[]schema.Rename{{From: "code", To: "price"}, {From: "price", To: "cost"}},
			[]string{`ALTER TABLE "shop"."items" RENAME COLUMN "code" TO "price"`},
			"",
		},
		{
			"a row of renames, done", func(x *schema.Table) { x.Columns[2].Name, x.Columns[1].Name = "cost", "price" }, rename("price", "cost", "code", "price"),
			[]schema.Rename{{From: "code", To: "price"}, {From: "price", To: "cost"}},
			nil, "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			before, after := evolvedItems(), evolvedItems()
			c.change(&after)
			alter := schema.Change{Kind: schema.AlterTable, Renamed: c.rename}
			after.Indexes = alter.IndexesAfter(before.Indexes)
			from, err := Postgres{}.TargetTable(before, before.Name, Options{})
			if err != nil {
				t.Fatal(err)
			}
			to, err := Postgres{}.TargetTable(after, after.Name, Options{})
			if err != nil {
				t.Fatal(err)
			}
			current := from
			current.Columns = slices.Clone(from.Columns)
			c.chosen(&current)
			plan := Postgres{}.Evolve(Evolution{Current: &current, From: &from, To: &to, Renames: c.rename, Policy: schema.Evolve})
			var got []string
			for _, s := range plan.Statements {
				got = append(got, s.SQL)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if err := plan.Err(); err == nil && c.refuse != "" || err != nil && err.Error() != c.refuse {
				t.Errorf("got error %v, want %s", err, c.refuse)
			}
		})
	}
}
