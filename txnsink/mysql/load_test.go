package mysql

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
	"replicator/txnsink/mysql/mysqlserver"
)

// many is how many rows the tests load.
const many = 1000

var noteShape = &debezium.Shape{Fields: []debezium.Field{
	{Name: "id", Type: debezium.Int32}, {Name: "note", Type: debezium.String, Optional: true}, {Name: "code", Type: debezium.Int32},
}}

// notes folds creates of the rows 0..many-1, with a code.
func notes(tb testing.TB, s *Sink, table string, note func(i int) string, code func(i int) int) []sqlgen.Statement {
	tb.Helper()
	found, err := s.Table(tb.Context(), schema.Name{Table: table})
	if err != nil || found == nil {
		tb.Fatalf("table %s: %v, %v", table, found, err)
	}
	target, err := sqlgen.NewTarget(s.Dialect(), *found, sqlgen.TargetConfig{})
	if err != nil {
		tb.Fatal(err)
	}
	b := sqlgen.NewBatch(s.Dialect())
	for i := range many {
		e := debezium.Event{Op: debezium.Create, Offset: int64(i), After: debezium.Row{Shape: noteShape, Values: []debezium.Value{
			{Kind: debezium.IntValue, Num: int64(i)}, {Kind: debezium.StringValue, Text: note(i)}, {Kind: debezium.IntValue, Num: int64(code(i))},
		}}}
		if err := b.Add(target, &e); err != nil {
			tb.Fatal(err)
		}
	}
	return b.Statements()
}

func same(i int) int { return i }

func always(note string) func(int) string { return func(int) string { return note } }

// loadedIn applies statements in a prepared transaction and commits it, and returns how many of them the session has loaded.
func loadedIn(t *testing.T, s *Sink, checkpoint int64, statements []sqlgen.Statement) (int, error) {
	t.Helper()
	opened, err := s.Begin(t.Context(), txnsink.ID{Pipeline: s.config.Pipeline, Epoch: 1, Checkpoint: checkpoint})
	if err != nil {
		t.Fatal(err)
	}
	tx := opened.(*txn)
	loads := func() (n int) {
		var name string
		if err := tx.session.conn.QueryRowContext(t.Context(), "SHOW SESSION STATUS LIKE 'Com_load'").Scan(&name, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	// A server that keeps no warnings counts them all the same.
	if err := tx.session.exec(t.Context(), "SET max_error_count = 0"); err != nil {
		t.Fatal(err)
	}
	before := loads()
	if err := tx.Apply(t.Context(), statements); err != nil {
		return 0, errors.Join(err, tx.Abort(t.Context()))
	}
	after := loads()
	if err := tx.PreCommit(t.Context()); err != nil {
		t.Fatal(err)
	}
	return after - before, s.Commit(t.Context(), tx.ID())
}

func TestNewRowsAreLoadedAndReplacedWhenTheyAreThere(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		s := fenced(t, url)
		for _, table := range []string{"plain", "traded"} {
			index := ""
			if table == "traded" {
				index = ", UNIQUE KEY (code)"
			}
			execute(t, url, "CREATE TABLE "+table+" (id int PRIMARY KEY, note varchar(40), code int NOT NULL"+index+") ENGINE=InnoDB")
		}
		checkpoint := int64(0)
		for round := range 3 {
			for _, table := range []string{"plain", "traded"} {
				checkpoint++
				note := fmt.Sprintf("round %d", round)
				loads, err := loadedIn(t, s, checkpoint, notes(t, s, table, always(note), func(i int) int { return (i + round) % many }))
				if err != nil {
					t.Fatal(err)
				}
				if round == 0 && loads != 1 {
					t.Errorf("%s: loaded %d times, want once", table, loads)
				}
				want := []string{"1000|1000|1000"}
				if got := query(t, url, fmt.Sprintf("SELECT COUNT(*), SUM(note = '%s'), SUM(code = (id + %d) %% 1000) FROM %s", note, round, table)); !slices.Equal(got, want) {
					t.Errorf("%s, round %d: got %v, want %v", table, round, got, want)
				}
			}
		}
	})
}

// TestARowThatLoadingWouldBendIsRefused, with its name and without its value.
func TestARowThatLoadingWouldBendIsRefused(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		s := fenced(t, url)
		for i, c := range []struct{ columns, bad string }{
			{"id int PRIMARY KEY, note enum('ok') NOT NULL, code int NOT NULL", "sesame"},
			{"id int PRIMARY KEY, note varchar(40) CHARACTER SET latin1, code int NOT NULL", "sesame 😀"},
			{"id int PRIMARY KEY, note varchar(40) CHECK (note <> 'sesame'), code int NOT NULL", "sesame"},
			{"id int, note varchar(40) CHECK (note <> 'sesame'), code int NOT NULL", "sesame"},
			{"id int PRIMARY KEY, note json, code int NOT NULL", "sesame"},
		} {
			table := fmt.Sprintf("t%d", i)
			execute(t, url, "CREATE TABLE "+table+" ("+c.columns+") ENGINE=InnoDB")
			statements := notes(t, s, table, func(i int) string {
				switch {
				case i == 700:
					return c.bad
				case strings.Contains(c.columns, "json"):
					return "{}"
				}
				return "ok"
			}, same)
			if statements[0].Data == nil {
				t.Errorf("%s: not loaded", c.columns)
			}
			_, err := loadedIn(t, s, 1, statements)
			var row *sqlgen.RowError
			if !errors.As(err, &row) || row.Origin.Offset != 700 || strings.Contains(err.Error(), "sesame") {
				t.Errorf("%s: got %v", c.columns, err)
			}
			if got := query(t, url, "SELECT COUNT(*) FROM "+table); got[0] != "0" {
				t.Errorf("%s: %s rows", c.columns, got[0])
			}
		}
	})
}

// TestWithoutLocalInfileRowsAreInserted: nobody asks, and a server that changes its mind is heard.
func TestWithoutLocalInfileRowsAreInserted(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		own := ownServer(t, server.Kind(), map[string]string{"local-infile": "OFF"})
		url := newDatabase(t, own)
		execute(t, url, "CREATE TABLE t (id int PRIMARY KEY, note varchar(40), code int NOT NULL) ENGINE=InnoDB")
		s := fenced(t, url)
		if s.facts.loads {
			t.Error("taken for a server that loads")
		}
		s.facts.loads = true
		if _, err := loadedIn(t, s, 1, notes(t, s, "t", always("x"), same)); err != nil {
			t.Fatal(err)
		}
		if got := query(t, url, "SELECT COUNT(*) FROM t"); got[0] != "1000" {
			t.Errorf("%s rows", got[0])
		}
	})
}

func TestAConnectionThatIsLostWhileRowsAreLoadedIsAFailureThatPasses(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		url := newDatabase(t, server)
		execute(t, url, "CREATE TABLE t (id int PRIMARY KEY, note varchar(40), code int NOT NULL) ENGINE=InnoDB")
		f := &fault{marker: []byte("the 999th")}
		s := fence(t, faulty(t, Config{URL: url, Pipeline: pipelineOf(url)}, f), 1)
		statements := notes(t, s, "t", func(i int) string { return fmt.Sprintf("the %dth", i) }, same)
		f.armed.Store(true)
		if _, err := loadedIn(t, s, 1, statements); err == nil || txnsink.Permanent(err) {
			t.Errorf("got %v", err)
		}
		if _, err := loadedIn(t, s, 2, statements); err != nil {
			t.Error(err)
		}
		if got := query(t, url, "SELECT COUNT(*) FROM t"); got[0] != "1000" {
			t.Errorf("%s rows", got[0])
		}
	})
}
