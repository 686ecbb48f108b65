package sqlgen

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

func softTarget(t *testing.T, key ...string) *Target {
	t.Helper()
	table := itemTable(key...)
	table.Columns[2].Type = PostgresType("boolean")
	target, err := NewTarget(Postgres{}, table, TargetConfig{Rules: Rules{Delete: DeleteSoft, Soft: "local"}})
	if err != nil {
		t.Fatal(err)
	}
	return target
}

// TestSoftDeletesFoldedEqualSoftDeletesOneByOne compares a batch with batches of one event.
func TestSoftDeletesFoldedEqualSoftDeletesOneByOne(t *testing.T) {
	t.Parallel()
	create := func(id, a int) debezium.Event {
		return debezium.Event{Op: debezium.Create, After: itemRow(id, number32(a), textValue("x"))}
	}
	update := func(id, a int) debezium.Event {
		return debezium.Event{Op: debezium.Update, After: itemRow(id, number32(a), unavailableValue)}
	}
	del := func(id int) debezium.Event { return debezium.Event{Op: debezium.Delete, Key: idRow(id)} }
	left := func(from, to int) debezium.Event {
		return debezium.Event{Op: debezium.Delete, Key: idRow(from), NewKey: idRow(to)}
	}
	came := func(from, to int) debezium.Event {
		return debezium.Event{Op: debezium.Create, OldKey: idRow(from), After: itemRow(to, number32(5), textValue("moved"))}
	}
	for name, events := range map[string][]debezium.Event{
		"stored row":           {del(1)},
		"no such row":          {del(3)},
		"created here":         {create(3, 1), del(3)},
		"changed here":         {create(1, 7), del(1)},
		"partly changed":       {update(1, 7), del(1)},
		"comes back":           {del(1), create(1, 8)},
		"comes back and goes":  {del(1), create(1, 8), del(1)},
		"twice":                {del(1), del(1)},
		"after a move":         {left(1, 9), came(1, 9), del(9)},
		"its old key":          {left(1, 9), came(1, 9), create(1, 3), del(1)},
		"after a truncate":     {{Op: debezium.Truncate}, del(1), create(2, 2), del(2)},
		"moved after a delete": {del(1), create(1, 2), left(1, 9), came(1, 9)},
	} {
		target := softTarget(t, "id")
		folded, single := newStore(target), newStore(target)
		for _, s := range []*store{folded, single} {
			if err := s.apply(fold(t, target, create(1, 1), create(2, 2))); err != nil {
				t.Fatal(err)
			}
		}
		if err := folded.apply(fold(t, target, events...)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i := 0; i < len(events); i++ {
			part := events[i : i+1]
			if events[i].NewKey.Sent() {
				part = events[i : i+2]
				i++
			}
			if err := single.apply(fold(t, target, part...)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got, want := folded.content(), single.content(); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %v\nwant %v", name, got, want)
		}
	}
}

func TestRulesForDeletesAndTruncates(t *testing.T) {
	t.Parallel()
	one := debezium.Event{Op: debezium.Create, After: itemRow(1, number32(1), textValue("x"))}
	del := debezium.Event{Op: debezium.Delete, Key: idRow(1), Before: itemRow(1, number32(1), textValue("x"))}
	truncate := debezium.Event{Op: debezium.Truncate}
	for _, key := range [][]string{{"id"}, nil} {
		for name, c := range map[string]struct {
			rules  Rules
			events []debezium.Event
			rows   int
		}{
			"delete ignored":   {Rules{Delete: DeleteIgnore}, []debezium.Event{one, del}, 1},
			"delete applied":   {Rules{Delete: DeleteApply}, []debezium.Event{one, del}, 0},
			"truncate ignored": {Rules{Truncate: TruncateIgnore}, []debezium.Event{one, truncate}, 1},
			"truncate applied": {Rules{Truncate: TruncateApply}, []debezium.Event{one, truncate}, 0},
		} {
			target, err := NewTarget(Postgres{}, itemTable(key...), TargetConfig{Rules: c.rules})
			if err != nil {
				t.Fatal(err)
			}
			s := newStore(target)
			if err := s.apply(fold(t, target, c.events...)); err != nil {
				t.Errorf("%s, key %v: %v", name, key, err)
			}
			if got := s.content(); len(got) != c.rows {
				t.Errorf("%s, key %v: got %v, want %d rows", name, key, got, c.rows)
			}
		}
	}
	target, err := NewTarget(Postgres{}, itemTable("id"), TargetConfig{Rules: Rules{Truncate: TruncateStop}})
	if err != nil {
		t.Fatal(err)
	}
	var row *RowError
	if err := NewBatch(Postgres{}).Add(target, &truncate); !errors.As(err, &row) || row.Class != TruncateRefused {
		t.Errorf("got %v, want %s", err, TruncateRefused)
	}
}

func TestArrangedTableIsTheTargets(t *testing.T) {
	t.Parallel()
	source := schema.Table{
		Name: schema.Name{Table: "t"}, PrimaryKey: []string{"id"},
		Columns: []schema.Column{{Name: "id", NotNull: true}, {Name: "name"}, {Name: "note"}},
	}
	for name, c := range map[string]struct {
		rules Rules
		want  string // columns and key, or the class of the error
	}{
		"as it is":         {Rules{}, "[id name note] [id]"},
		"renamed":          {Rules{Rename: map[string]string{"id": "no", "name": "full_name"}}, "[no full_name note] [no]"},
		"excluded":         {Rules{Exclude: []string{"note"}}, "[id name] [id]"},
		"swapped":          {Rules{Rename: map[string]string{"name": "note", "note": "name"}}, "[id note name] [id]"},
		"another key":      {Rules{Key: []string{"name"}, Rename: map[string]string{"name": "n"}, Exclude: []string{"id"}}, "[n note] [n]"},
		"soft deletes":     {Rules{Delete: DeleteSoft, Soft: "gone"}, "[id name note gone] [id]"},
		"key excluded":     {Rules{Exclude: []string{"id"}}, string(KeyMismatch)},
		"renamed to two":   {Rules{Rename: map[string]string{"name": "note"}}, string(AmbiguousColumn)},
		"soft deletes' is": {Rules{Delete: DeleteSoft, Soft: "note"}, string(AmbiguousColumn)},
	} {
		table, err := c.rules.Arrange(source)
		var columns []string
		for _, col := range table.Columns {
			columns = append(columns, col.Name)
		}
		got := fmt.Sprint(columns, table.PrimaryKey)
		var row *RowError
		if errors.As(err, &row) {
			got = string(row.Class)
		}
		if got != c.want {
			t.Errorf("%s: got %s (%v), want %s", name, got, err, c.want)
		}
	}
	if want := []string{"id", "name", "note"}; !reflect.DeepEqual([]string{source.Columns[0].Name, source.Columns[1].Name, source.Columns[2].Name}, want) {
		t.Errorf("the source's table was changed: %+v", source)
	}
}

func TestRulesThatTheTargetsTableCannotKeepAreRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		rules Rules
		want  Class
	}{
		"key excluded":       {Rules{Exclude: []string{"ID"}}, KeyMismatch},
		"chosen key":         {Rules{Key: []string{"a"}, Exclude: []string{"a"}}, KeyMismatch},
		"no soft column":     {Rules{Delete: DeleteSoft, Soft: "gone"}, MissingColumn},
		"soft column's type": {Rules{Delete: DeleteSoft, Soft: "b"}, UnsupportedType},
	} {
		var row *RowError
		if _, err := NewTarget(Postgres{}, itemTable("id"), TargetConfig{Rules: c.rules}); !errors.As(err, &row) || row.Class != c.want {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}
