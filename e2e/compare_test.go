package e2e

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func hexOf(s string) string { return strings.ToUpper(fmt.Sprintf("%x", s)) }

func row(values ...any) Row {
	var out Row
	for _, v := range values {
		if v == nil {
			out = append(out, nil)
			continue
		}
		s := fmt.Sprint(v)
		out = append(out, &s)
	}
	return out
}

func TestKeyedRowsAreComparedByKey(t *testing.T) {
	t.Parallel()
	table := Table{Name: "customer", Columns: []Column{
		{Name: "id", Type: "int", FullType: "int", Key: true},
		{Name: "name", Type: "varchar", FullType: "varchar(20)"},
	}}
	got, err := Compare(table,
		[]Row{row(1, hexOf("Ada")), row(2, hexOf("a, \"b\"")), row(3, nil), row(4, hexOf("NULL"))},
		[]Row{row(4, nil), row(2, "a, \"b\""), row(1, "Ada"), row(5, "Ed")})
	if err != nil {
		t.Fatal(err)
	}
	want := Difference{Table: "customer", Source: 4, Target: 4, Lost: 1, Repeated: 1, Changed: 1, Examples: []string{
		`changed: id "4", name is NULL instead of "NULL"`,
		`lost: "3", NULL`,
		`repeated: "5", "Ed"`,
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%#v, want\n%#v", got, want)
	}
}

func TestRowsWithoutKeyAreCounted(t *testing.T) {
	t.Parallel()
	table := Table{Name: "log", Columns: []Column{{Name: "actor", Type: "varchar", FullType: "varchar(20)"}}}
	a, b := hexOf("ada"), hexOf("bo")
	for _, c := range []struct {
		source, target []Row
		want           Difference
	}{
		{[]Row{row(a), row(b), row(a), row(nil)}, []Row{row("ada"), row("ada"), row(nil), row("bo")}, Difference{Table: "log", Source: 4, Target: 4}},
		{[]Row{row(a), row(a)}, []Row{row("ada")}, Difference{Table: "log", Source: 2, Target: 1, Lost: 1, Examples: []string{`lost: "ada"`}}},
		{[]Row{row(a)}, []Row{row("ada"), row("ada")}, Difference{Table: "log", Source: 1, Target: 2, Repeated: 1, Examples: []string{`repeated: "ada"`}}},
		{[]Row{row(a)}, []Row{row("bo")}, Difference{Table: "log", Source: 1, Target: 1, Lost: 1, Repeated: 1, Examples: []string{`lost: "ada"`, `repeated: "bo"`}}},
	} {
		got, err := Compare(table, c.source, c.target)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("got\n%#v, want\n%#v", got, c.want)
		}
		if equal := len(c.want.Examples) == 0; got.Equal() != equal {
			t.Errorf("%#v is equal: got %v, want %v", got, got.Equal(), equal)
		}
	}
}

func TestUnreadableValueNamesItsPlace(t *testing.T) {
	t.Parallel()
	table := Table{Name: "log", Columns: []Column{{Name: "n", Type: "double", FullType: "double"}}}
	_, err := Compare(table, []Row{row("x")}, nil)
	if err == nil || !strings.HasPrefix(err.Error(), "source: table log, column n, row 1: ") {
		t.Errorf("got %v", err)
	}
	if _, err = Compare(table, []Row{row(1, 2)}, nil); err == nil {
		t.Error("a row with a column too many is no error")
	}
}

func TestReportHasOneLineATable(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	err := Report(&b, []Difference{{Table: "a", Source: 10, Target: 10}, {Table: "b", Source: 2, Target: 1, Lost: 1, Examples: []string{"lost: 1"}}})
	if err != nil {
		t.Fatal(err)
	}
	want := "" +
		"  table  source rows  target rows  lost  repeated  changed\n" +
		"      a           10           10     0         0        0\n" +
		"      b            2            1     1         0        0\n" +
		"    all           12           11     1         0        0\n" +
		"b: lost: 1\n"
	if b.String() != want {
		t.Errorf("got\n%s, want\n%s", b.String(), want)
	}
}
