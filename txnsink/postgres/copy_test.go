package postgres

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// many is how many rows the tests copy.
const many = 1000

// newTarget reads a table from the catalog.
func newTarget(t testing.TB, s *Sink, table string) *sqlgen.Target {
	t.Helper()
	found, err := s.Table(t.Context(), schema.Name{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	target, err := sqlgen.NewTarget(s.Dialect(), *found, sqlgen.TargetConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return target
}

var noteShape = &debezium.Shape{Fields: []debezium.Field{{Name: "id", Type: debezium.Int32}, {Name: "note", Type: debezium.String, Optional: true}}}

// notes folds creates of the rows 0..many-1.
func notes(t *testing.T, target *sqlgen.Target, note func(i int) string) []sqlgen.Statement {
	t.Helper()
	b := sqlgen.NewBatch(sqlgen.Postgres{})
	for i := range many {
		e := debezium.Event{Op: debezium.Create, Offset: int64(i), After: debezium.Row{Shape: noteShape, Values: []debezium.Value{intValue(int64(i)), stringValue(note(i))}}}
		if err := b.Add(target, &e); err != nil {
			t.Fatal(err)
		}
	}
	return b.Statements()
}

// applied applies statements in a transaction of their own, one checkpoint after the other.
func applied(t *testing.T, s *Sink, checkpoint int64, statements []sqlgen.Statement) error {
	t.Helper()
	txn, err := s.Begin(t.Context(), txnsink.ID{Pipeline: s.config.Pipeline, Epoch: 1, Checkpoint: checkpoint})
	if err != nil {
		t.Fatal(err)
	}
	if err := txn.Apply(t.Context(), statements); err != nil {
		return errors.Join(err, txn.Abort(t.Context()))
	}
	return txn.Commit(t.Context(), nil)
}

func TestNewRowsOfEveryTypeAreCopied(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	shape := &debezium.Shape{Fields: []debezium.Field{{Name: "id", Type: debezium.Int32}}}
	ddl := "CREATE TABLE every (id int PRIMARY KEY"
	full, empty := []debezium.Value{intValue(0)}, []debezium.Value{intValue(0)}
	var want string
	for i, c := range samples {
		if slices.Contains([]string{"mood", "posint", "inet", "money", "xml", "int4range"}, c.sqlType) || strings.HasSuffix(c.sqlType, "[]") {
			continue // these travel as text, which COPY cannot cast
		}
		c.field.Name, c.field.Optional = fmt.Sprintf("c%d", i), true
		ddl += ", " + c.field.Name + " " + c.sqlType
		shape.Fields = append(shape.Fields, c.field)
		full, empty = append(full, c.value), append(empty, debezium.Value{Kind: debezium.Null})
		want += "|" + c.want
	}
	s := fenced(t, url, ddl+", other int DEFAULT 7)")
	target := newTarget(t, s, "every")
	b := sqlgen.NewBatch(s.Dialect())
	for i := range many {
		values := slices.Clone(full)
		if i%2 == 1 {
			values = slices.Clone(empty)
		}
		values[0] = intValue(int64(i))
		e := debezium.Event{Op: debezium.Read, After: debezium.Row{Shape: shape, Values: values}}
		if err := b.Add(target, &e); err != nil {
			t.Fatal(err)
		}
	}
	list := b.Statements()
	if len(list) != 1 || !strings.HasPrefix(list[0].SQL, "COPY ") {
		t.Fatalf("got %d statements, the first %q", len(list), list[0].SQL)
	}
	if err := applied(t, s, 1, list); err != nil {
		t.Fatal(err)
	}
	if got := query(t, url, "SELECT count(*), count(*) FILTER (WHERE other = 7) FROM every"); got[0] != "1000|1000" {
		t.Errorf("rows: got %v", got)
	}
	if got := query(t, url, "SELECT * FROM every WHERE id = 10"); got[0] != "10"+want+"|7" {
		t.Errorf("got  %v\nwant %v", got[0], "10"+want+"|7")
	}
	if got := query(t, url, "SELECT * FROM every WHERE id = 11"); got[0] != "11"+strings.Repeat("|NULL", len(full)-1)+"|7" {
		t.Errorf("nulls: got %v", got[0])
	}
}

// TestCopiedRowsTradeValues: rows that are there, and trade values of a unique index, come among so many that they are copied. COPY and the
// upsert that stands instead of it are refused, and an exchange writes them. This went on for ever once.
func TestCopiedRowsTradeValues(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := fenced(t, url, "CREATE TABLE t (id int PRIMARY KEY, note text UNIQUE)")
	target := newTarget(t, s, "t")
	for round := range int64(3) {
		if err := applied(t, s, round+1, notes(t, target, func(i int) string { return fmt.Sprint((int64(i) + round) % many) })); err != nil {
			t.Fatal(err)
		}
		want := []string{"1000|1000"}
		if got := query(t, url, fmt.Sprintf("SELECT count(*), count(*) FILTER (WHERE note::int = (id + %d) %% 1000) FROM t", round)); !slices.Equal(got, want) {
			t.Errorf("round %d: got %v, want %v", round, got, want)
		}
	}
}

func TestRowsThatAreThereAlreadyAreReplacedAfterACopyIsRefused(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := fenced(t, url, "CREATE TABLE t (id int PRIMARY KEY, note text, own int DEFAULT 1); INSERT INTO t VALUES (999, 'was there', 2)")
	target := newTarget(t, s, "t")
	for round := range int64(5) {
		note := fmt.Sprintf("round %d", round)
		if err := applied(t, s, round+1, notes(t, target, func(int) string { return note })); err != nil {
			t.Fatal(err)
		}
		want := []string{"1000|1000|1"}
		if got := query(t, url, "SELECT count(*), count(*) FILTER (WHERE note = '"+note+"'), count(*) FILTER (WHERE own = 2) FROM t"); !slices.Equal(got, want) {
			t.Errorf("round %d: got %v, want %v", round, got, want)
		}
	}
}

func TestRowThatACopyIsRefusedForIsNamed(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := fenced(t, url, `CREATE TABLE keyed (id int PRIMARY KEY, note text CHECK (note <> 'sesame')); CREATE TABLE bag (id int, note text CHECK (note <> 'sesame'))`)
	for i, table := range []string{"keyed", "bag"} {
		target := newTarget(t, s, table)
		err := applied(t, s, int64(i+1), notes(t, target, func(i int) string {
			if i == 700 {
				return "sesame"
			}
			return "ok"
		}))
		var row *sqlgen.RowError
		if !errors.As(err, &row) || row.Class != sqlgen.CheckViolation || row.Origin.Offset != 700 || strings.Contains(err.Error(), "sesame") {
			t.Errorf("%s: got %v", table, err)
		}
		if got := query(t, url, "SELECT count(*) FROM "+table); got[0] != "0" {
			t.Errorf("%s: %s rows", table, got[0])
		}
	}
}

// slotShape is a row with a unique value, and one whose unchanged value the source does not send.
var slotShape = &debezium.Shape{Fields: []debezium.Field{
	{Name: "id", Type: debezium.Int32}, {Name: "code", Type: debezium.String}, {Name: "doc", Type: debezium.String, Optional: true},
}}

func TestRowsMayTradeUniqueValues(t *testing.T) {
	t.Parallel()
	unavailable := debezium.Value{Kind: debezium.Unavailable}
	row := func(id int64, code string, doc debezium.Value) debezium.Row {
		return debezium.Row{Shape: slotShape, Values: []debezium.Value{intValue(id), stringValue(code), doc}}
	}
	update := func(id int64, code string, doc debezium.Value) debezium.Event {
		return debezium.Event{Op: debezium.Update, After: row(id, code, doc)}
	}
	create := func(id int64, code string) debezium.Event {
		return debezium.Event{Op: debezium.Create, After: row(id, code, stringValue("new"))}
	}
	key := func(id int64) debezium.Row {
		return debezium.Row{Shape: &debezium.Shape{Fields: slotShape.Fields[:1]}, Values: []debezium.Value{intValue(id)}}
	}
	moveOut := func(from, to int64) debezium.Event {
		return debezium.Event{Op: debezium.Delete, Key: key(from), NewKey: key(to)}
	}
	moveIn := func(from, to int64, code string, doc debezium.Value) debezium.Event {
		return debezium.Event{Op: debezium.Create, OldKey: key(from), After: row(to, code, doc)}
	}
	for name, c := range map[string]struct {
		events []debezium.Event
		want   []string
	}{
		"rotated": {
			[]debezium.Event{update(1, "B", stringValue("new")), update(2, "C", stringValue("new")), update(3, "A", stringValue("new"))},
			[]string{"1|B|new|7", "2|C|new|7", "3|A|new|7"},
		},
		"rotated the other way, one value unavailable": {
			[]debezium.Event{update(3, "A", stringValue("new")), update(2, "C", unavailable), update(1, "B", stringValue("new"))},
			[]string{"1|B|new|7", "2|C|d2|7", "3|A|new|7"},
		},
		"freed and taken by a new row": {
			[]debezium.Event{update(1, "Z", unavailable), create(4, "A"), create(5, "Y")},
			[]string{"1|Z|d1|7", "2|B|d2|7", "3|C|d3|7", "4|A|new|7", "5|Y|new|7"},
		},
		"the freed value of a new row": {
			[]debezium.Event{create(4, "D"), update(4, "X", stringValue("new")), update(1, "D", stringValue("new"))},
			[]string{"1|D|new|7", "2|B|d2|7", "3|C|d3|7", "4|X|new|7"},
		},
		"with a changed key": {
			[]debezium.Event{moveOut(1, 9), moveIn(1, 9, "B", unavailable), update(2, "A", unavailable)},
			[]string{"2|A|d2|7", "3|C|d3|7", "9|B|d1|7"},
		},
		"of a row that is not stored": {
			[]debezium.Event{update(8, "A", stringValue("new")), update(1, "B", stringValue("new")), update(2, "Q", unavailable)},
			[]string{"1|B|new|7", "2|Q|d2|7", "3|C|d3|7", "8|A|new|7"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newDatabase(t)
			s := fenced(t, url, `CREATE TABLE slot (id int PRIMARY KEY, code text NOT NULL UNIQUE, doc text, own int NOT NULL DEFAULT 7);
INSERT INTO slot VALUES (1, 'A', 'd1'), (2, 'B', 'd2'), (3, 'C', 'd3')`)
			target := newTarget(t, s, "slot")
			b := sqlgen.NewBatch(s.Dialect())
			for i := range c.events {
				if err := b.Add(target, &c.events[i]); err != nil {
					t.Fatal(err)
				}
			}
			if err := applied(t, s, 1, b.Statements()); err != nil {
				t.Fatal(err)
			}
			if got := query(t, url, "SELECT * FROM slot"); !slices.Equal(got, c.want) {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
		})
	}
}

func TestUniqueValueThatNobodyGivesUpIsRefused(t *testing.T) {
	t.Parallel()
	url := newDatabase(t)
	s := fenced(t, url, "CREATE TABLE slot (id int PRIMARY KEY, code text NOT NULL UNIQUE, doc text); INSERT INTO slot VALUES (1, 'A', 'd1'), (2, 'B', 'd2')")
	b := sqlgen.NewBatch(s.Dialect())
	e := debezium.Event{Op: debezium.Update, Offset: 5, After: debezium.Row{Shape: slotShape, Values: []debezium.Value{intValue(2), stringValue("A"), stringValue("new")}}}
	if err := b.Add(newTarget(t, s, "slot"), &e); err != nil {
		t.Fatal(err)
	}
	var row *sqlgen.RowError
	if err := applied(t, s, 1, b.Statements()); !errors.As(err, &row) || row.Class != sqlgen.UniqueViolation || row.Origin.Offset != 5 {
		t.Errorf("got %v", err)
	}
}
