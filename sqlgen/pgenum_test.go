package sqlgen

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

var enums = Options{Enum: "enum"}

func enumOf(labels ...string) schema.Type { return schema.Type{Kind: schema.Enum, Values: labels} }

func setOf(labels ...string) schema.Type { return schema.Type{Kind: schema.Set, Values: labels} }

// TestEveryStatementAboutEnumsIsDocumented keeps the second table of docs/schema-changes.md.
func TestEveryStatementAboutEnumsIsDocumented(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	b.WriteString("| at the source | `evolve` | `lenient` |\n|---|---|---|\n")
	seen := map[DDLKind]bool{}
	for _, s := range []struct {
		sql    string
		change func(t *schema.Table)
	}{
		{"CREATE TABLE items (...)", nil},
		{"DROP TABLE items", nil},
		{"RENAME TABLE items TO goods", func(t *schema.Table) { t.Name.Table = "goods" }},
		{"ALTER TABLE items ADD e ENUM('new', 'old') NOT NULL", add("e", enumOf("new", "old"), true, "")},
		{"ALTER TABLE items ADD s SET('x', 'y') NOT NULL DEFAULT 'x,y'", add("s", setOf("x", "y"), true, "x,y")},
		{"ALTER TABLE items DROP kind", drop("kind")},
		{"ALTER TABLE items RENAME COLUMN kind TO sort", rename("kind", "sort")},
		{"ALTER TABLE items MODIFY kind ENUM('a', 'b', 'c')", retype(4, enumOf("a", "b", "c"))},
		{"ALTER TABLE items MODIFY kind ENUM('x', 'a', 'y', 'z', 'b')", retype(4, enumOf("x", "a", "y", "z", "b"))},
		{"ALTER TABLE items MODIFY kind ENUM('b', 'c')", retype(4, enumOf("b", "c"))},
		{"ALTER TABLE items MODIFY kind ENUM('b', 'a')", retype(4, enumOf("b", "a"))},
		{"ALTER TABLE items MODIFY kind ENUM('a', 'b', 'c') DEFAULT 'c'", func(t *schema.Table) {
			t.Columns[4].Type, t.Columns[4].Default = enumOf("a", "b", "c"), new("c")
		}},
		{"ALTER TABLE items MODIFY kind VARCHAR(20)", retype(4, schema.Type{Kind: schema.Varchar, Length: 20})},
		{"ALTER TABLE items MODIFY kind SET('a', 'b')", retype(4, setOf("a", "b"))},
		{"ALTER TABLE items MODIFY kind INT", retype(4, schema.Type{Kind: schema.Int32})},
		{"ALTER TABLE items MODIFY code ENUM('x', 'y') NOT NULL DEFAULT 'x'", retype(1, enumOf("x", "y"))},
		{"ALTER TABLE items DROP kind, ADD kind ENUM('a', 'c')", retype(4, enumOf("a", "c"))},
	} {
		evolve, lenient := evolved(t, s.sql, s.change, schema.Evolve, enums), evolved(t, s.sql, s.change, schema.Lenient, enums)
		for _, ddl := range evolve.Statements {
			seen[ddl.Kind] = true
		}
		same := cell(lenient)
		if same == cell(evolve) {
			same = "the same"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.sql, cell(evolve), same)
		if stop := evolved(t, s.sql, s.change, schema.Stop, enums); len(stop.Statements) > 0 {
			t.Errorf("%s: stop gives %+v", s.sql, stop)
		}
	}
	for _, kind := range []DDLKind{CreateType, AddLabel, DropType, RenameType} {
		if !seen[kind] {
			t.Errorf("no documented statement leads to %s", kind)
		}
	}
	document(t, enumsBegin, b.String())
}

// TestAnEnumThatCannotHaveAType becomes text, which is said with the reason.
func TestAnEnumThatCannotHaveAType(t *testing.T) {
	t.Parallel()
	source := schema.Table{Name: schema.Name{Table: "t"}}
	for i, labels := range [][]string{nil, {strings.Repeat("ä", 32)}, {"a\x00"}, {"\xff"}, {"a", "b", "a"}, {"", "it's", strings.Repeat("x", 63)}} {
		source.Columns = append(source.Columns, schema.Column{Name: fmt.Sprint("c", i), Type: schema.Type{Kind: schema.Enum, Values: labels}})
	}
	source.Columns = append(source.Columns, schema.Column{Name: strings.Repeat("n", 60), Type: enumOf("a")},
		schema.Column{Name: "list", Type: schema.Type{Kind: schema.Array, Elem: &schema.Type{Kind: schema.Enum, Values: []string{"a"}}}})
	var said []string
	o := Options{Enum: "enum", Unlabelled: func(table schema.Name, column, why string) {
		said = append(said, table.String()+"."+column+": "+why)
	}}
	table, err := Postgres{}.TargetTable(source, schema.Name{Schema: "S", Table: "t"}, o)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range table.Columns {
		got = append(got, fmt.Sprintf("%s %s %q", c.Name, c.Type.Native, c.Type.Values))
	}
	want := []string{
		`c0 text []`, `c1 text []`, `c2 text []`, `c3 text []`, `c4 "S"."t_c4_enum" ["a" "b"]`,
		`c5 "S"."t_c5_enum" ["" "it's" "` + strings.Repeat("x", 63) + `"]`,
		strings.Repeat("n", 60) + ` "S"."` + Postgres{}.ShortName("t_"+strings.Repeat("n", 60)+"_enum") + `" ["a"]`,
		`list text[] []`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	wantSaid := []string{
		"S.t.c0: its labels are not known", "S.t.c1: a label is longer than the 63 bytes that PostgreSQL's have",
		"S.t.c2: a label is no text that PostgreSQL can store", "S.t.c3: a label is no text that PostgreSQL can store",
	}
	if !slices.Equal(said, wantSaid) {
		t.Errorf("said %q", said)
	}
}

// TestMembersOfASet become an array that is written as PostgreSQL writes it: rows without a key are compared by that text.
func TestMembersOfASet(t *testing.T) {
	t.Parallel()
	for _, f := range []debezium.Field{{Name: "s", Type: debezium.String, Semantic: "io.debezium.data.EnumSet"}, {Name: "s"}} {
		column := schema.Column{Name: "s", Type: PostgresType("text[]")}
		encode, err := Postgres{}.Encoder(f, setOf("a", "b"), schema.Name{Table: "t"}, column, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for value, want := range map[string]string{
			"": "{}", "a": "{a}", "a,b": "{a,b}", "null,x y": `{"null","x y"}`, `"q",\,{}`: `{"\"q\"","\\","{}"}`, "ä,": `{ä,""}`,
		} {
			got, err := encode(nil, &debezium.Value{Kind: debezium.StringValue, Text: value})
			if err != nil || string(got) != want {
				t.Errorf("%q: got %s, %v, want %s", value, got, err, want)
			}
		}
	}
}

func TestLastIdentifier(t *testing.T) {
	t.Parallel()
	for native, want := range map[string]string{
		"mood": "mood", "shop.mood": "mood", `"Mood"`: "Mood", `"a.b"."C ""d"""`: `C "d"`, `shop."x.y"`: "x.y", `"""b"`: `"b`, `a.""""`: `"`,
	} {
		if got := lastIdentifier(native); got != want {
			t.Errorf("%s: got %s, want %s", native, got, want)
		}
	}
}
