package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink/sinktest"
)

// Mutations of how schema changes are followed that these tests must catch. Each was tried by hand: applied, seen to fail here,
// undone.
//
//	prepare: bring without quiesce         TestEveryCrashPointOfSchemaChanges
//	prepare: no hold                       TestEveryCrashPointOfSchemaChanges
//	present: follow no renames             TestEveryCrashPointOfSchemaChanges
//	present: pass over what was emptied    TestReplayFromEveryCheckpointOverSchemaChanges
//	step: define without the note          TestReplayFromEveryCheckpointOverSchemaChanges
//	finish: leave the end's changes out    TestEveryCrashPointOfSchemaChanges

// changingWorld has a table that gets a column, has one renamed and one dropped, and is renamed itself; one that is truncated
// by a statement of which no event tells; one that is dropped and made anew in another shape; and one that is dropped at the end.
func changingWorld() *world {
	w := &world{log: &memoryLog{}, database: sinktest.NewMemory(), store: &memoryStore{}}
	pos := 1000
	ddl := func(text string, tables ...string) {
		pos += 10
		w.log.change(pos, text, tables...)
	}
	part := func(table string) debezium.Partition { return debezium.Partition{Topic: "s.d." + table} }
	row := func(table, op, before, after string) {
		pos += 10
		w.log.add(part(table), 0, rowAt(pos, table, op, before, after))
	}
	ddl("CREATE TABLE account (id INT PRIMARY KEY, v VARCHAR(9), old VARCHAR(9))", shape("CREATE", "account", "id", "v", "old"))
	ddl("CREATE TABLE journal (id INT PRIMARY KEY, line VARCHAR(9))", shape("CREATE", "journal", "id", "line"))
	ddl("CREATE TABLE pet (id INT PRIMARY KEY, name VARCHAR(9))", shape("CREATE", "pet", "id", "name"))
	ddl("CREATE TABLE gone (id INT PRIMARY KEY, x VARCHAR(9))", shape("CREATE", "gone", "id", "x"))
	row("account", "c", "", `{"id":1,"v":"a","old":"o"}`)
	row("account", "c", "", `{"id":2,"v":"b","old":"o"}`)
	row("journal", "c", "", `{"id":1,"line":"one"}`)
	row("pet", "c", "", `{"id":1,"name":"rex"}`)
	row("gone", "c", "", `{"id":1,"x":"y"}`)
	pos += 10
	late := debezium.Partition{Topic: "s.d.account", ID: 1} // whose row comes when the table has changed
	for range 12 {
		w.log.add(late, 1)
	}
	w.log.add(late, 0, rowAt(pos, "account", "c", "", `{"id":9,"v":"late","old":"o"}`))
	ddl("ALTER TABLE account ADD COLUMN w VARCHAR(9)", shape("ALTER", "account", "id", "v", "old", "w"))
	row("account", "c", "", `{"id":3,"v":"c","old":"o","w":"new"}`)
	ddl("ALTER TABLE account RENAME COLUMN v TO name, DROP COLUMN old", shape("ALTER", "account", "id", "name", "w"))
	row("account", "u", `{"id":1,"name":"a","w":null}`, `{"id":1,"name":"A","w":"x"}`)
	ddl("TRUNCATE TABLE journal")
	row("journal", "c", "", `{"id":2,"line":"two"}`)
	ddl("RENAME TABLE account TO client", shape("ALTER", "client", "id", "name", "w"))
	row("client", "u", `{"id":2,"name":"b","w":null}`, `{"id":2,"name":"B","w":null}`)
	row("client", "c", "", `{"id":4,"name":"d","w":"e"}`)
	ddl("DROP TABLE pet", drop("pet"))
	ddl("CREATE TABLE pet (id INT PRIMARY KEY, kind VARCHAR(9))", shape("CREATE", "pet", "id", "kind"))
	row("pet", "c", "", `{"id":2,"kind":"cat"}`)
	ddl("ALTER TABLE client ADD COLUMN z VARCHAR(9)", shape("ALTER", "client", "id", "name", "w", "z"))
	ddl("DROP TABLE gone", drop("gone"))
	return w
}

// settled fails unless the database is as the source at the end.
func (w *world) settled(t *testing.T, what string) {
	t.Helper()
	for name, want := range map[string][]string{
		"client":  {"1|A|x|NULL", "2|B|NULL|NULL", "3|c|new|NULL", "4|d|e|NULL", "9|late|NULL|NULL"},
		"journal": {"2|two"},
		"pet":     {"2|cat"},
		"account": nil,
		"gone":    nil,
	} {
		if got := w.database.Rows(schema.Name{Table: name}); !slices.Equal(got, want) {
			t.Errorf("%s: %s = %q, want %q", what, name, got, want)
		}
	}
	if table, err := w.database.Sink().Table(t.Context(), schema.Name{Table: "gone"}); err != nil || table != nil {
		t.Errorf("%s: a dropped table: %v, %v", what, table, err)
	}
	if got := w.database.Prepared(); len(got) != 0 {
		t.Errorf("%s: in doubt: %v", what, got)
	}
}

func evolving(c *checkpoint.Config) {
	c.Tables.SchemaTopic, c.Tables.Create = "s", true
}

// change appends a record of the schema-change topic.
func (l *memoryLog) change(pos int, ddl string, tables ...string) {
	list := ""
	for i, t := range tables {
		if i > 0 {
			list += ","
		}
		list += t
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.history = append(l.history, debezium.Record{
		Partition: debezium.Partition{Topic: "s"}, Offset: int64(len(l.history)),
		Value: fmt.Appendf(nil, `{"source":{"version":"3","connector":"mysql","name":"s","ts_ms":1,"snapshot":"false","db":"d","table":"t","server_id":1,"file":"b.1","pos":%d,"row":0},`+
			`"ts_ms":1,"databaseName":"d","schemaName":null,"ddl":%q,"tableChanges":[%s]}`, pos, ddl, list),
	})
}

// shape is an element of tableChanges: a table whose first column is its key, of type INT, and all others VARCHAR(9).
func shape(kind, table string, columns ...string) string {
	list := ""
	for i, c := range columns {
		typ, optional := "VARCHAR", "true"
		if i == 0 {
			typ, optional = "INT", "false"
		} else {
			list += ","
		}
		list += fmt.Sprintf(`{"name":%q,"typeName":%q,"typeExpression":%q,"length":9,"position":%d,"optional":%s}`, c, typ, typ, i+1, optional)
	}
	return fmt.Sprintf(`{"type":%q,"id":"\"d\".%s","table":{"primaryKeyColumnNames":[%q],"columns":[%s]}}`, kind, quotedID(table), columns[0], list)
}

func drop(table string) string {
	return fmt.Sprintf(`{"type":"DROP","id":"\"d\".%s","table":null}`, quotedID(table))
}

func quotedID(table string) string { return `\"` + table + `\"` }

// TestEveryCrashPointOfSchemaChanges breaks every call while tables change, as TestEveryCrashPoint does while rows do.
func TestEveryCrashPointOfSchemaChanges(t *testing.T) {
	t.Parallel()
	for _, rows := range []int{1, 1000} {
		for _, kind := range []fault{{before: true}, {}, {before: true, death: true}, {death: true}} {
			for n := 1; ; n++ {
				f := kind
				f.at = n
				what := fmt.Sprintf("rows %d, call %d, before %v, death %v", rows, n, f.before, f.death)
				done := false
				synctest.Test(t, func(t *testing.T) {
					w := changingWorld()
					sized := func(c *checkpoint.Config) { evolving(c); c.Rows = rows }
					p, err := w.start(t.Context(), checkpoint.TwoPhase, f, sized)
					done = p.calls < n
					if f.death && errors.Is(err, deadError{}) {
						_, err = w.start(t.Context(), checkpoint.TwoPhase, fault{}, sized)
					}
					if err != nil {
						t.Fatalf("%s: %v", what, err)
					}
					w.settled(t, what)
				})
				if t.Failed() {
					return
				}
				if done {
					break
				}
			}
		}
	}
}

// TestReplayFromEveryCheckpointOverSchemaChanges goes back to each saved checkpoint, some of them older than every change.
func TestReplayFromEveryCheckpointOverSchemaChanges(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	for from := int64(1); ; from++ {
		last := false
		synctest.Test(t, func(t *testing.T) {
			w := changingWorld()
			small := func(c *checkpoint.Config) { evolving(c); c.Rows = 1 }
			if _, err := w.start(t.Context(), checkpoint.TwoPhase, fault{}, small); err != nil {
				t.Fatal(err)
			}
			if last = from >= int64(w.store.count()); last { // how many there are depends on who comes first
				return
			}
			// A crash on the way, and the replay goes on from its own checkpoints.
			_, err := w.start(t.Context(), checkpoint.TwoPhase, fault{at: 5 + rng.IntN(60), death: true}, small, func(c *checkpoint.Config) { c.From, c.Replay = from, true })
			if err != nil && !errors.Is(err, deadError{}) {
				t.Fatalf("from %d: %v", from, err)
			}
			if _, err := w.start(t.Context(), checkpoint.TwoPhase, fault{}, small); err != nil {
				t.Fatalf("from %d: %v", from, err)
			}
			w.settled(t, fmt.Sprintf("from %d", from))
		})
		if last || t.Failed() {
			return
		}
	}
}

// TestStopPolicyStopsAtTheChange: no table is altered, and the error is one about a table's change.
func TestStopPolicyStopsAtTheChange(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := changingWorld()
		_, err := w.start(t.Context(), checkpoint.TwoPhase, fault{}, evolving, func(c *checkpoint.Config) { c.Tables.Evolve = schema.Stop })
		var refusal *sqlgen.Refusal
		if !errors.As(err, &refusal) {
			t.Fatalf("Run = %v, want a refusal", err)
		}
		for _, name := range []string{"account", "pet", "gone"} {
			if table, err := w.database.Sink().Table(t.Context(), schema.Name{Table: name}); err != nil || table == nil {
				t.Errorf("table %s: %v, %v", name, table, err)
			}
		}
		if table, err := w.database.Sink().Table(t.Context(), schema.Name{Table: "client"}); err != nil || table != nil {
			t.Errorf("table client: %v, %v", table, err)
		}
	})
}

// later runs do in the bubble's time while a process runs on w, and returns how that ends.
func later(t *testing.T, w *world, do func(), change ...func(*checkpoint.Config)) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := w.start(ctx, checkpoint.TwoPhase, fault{}, append(change, func(c *checkpoint.Config) { c.UntilCaughtUp = false })...)
		done <- err
	}()
	do()
	cancel()
	return <-done
}

// TestChangesThatNoRowFollowsAreApplied: a running pipeline finds them, and not before everything that was written ahead of them.
func TestChangesThatNoRowFollowsAreApplied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := changingWorld()
		err := later(t, w, func() {
			time.Sleep(time.Minute) // of the bubble's time
			w.settled(t, "running")
			w.log.change(9000, "DROP TABLE journal", drop("journal"))
			w.log.change(9010, "ALTER TABLE pet ADD COLUMN age VARCHAR(9)", shape("ALTER", "pet", "id", "kind", "age"))
			w.log.change(9020, "RENAME TABLE client TO person", shape("ALTER", "person", "id", "name", "w", "z"))
			time.Sleep(time.Minute)
		}, evolving)
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string][]string{"journal": nil, "client": nil, "pet": {"2|cat|NULL"}, "person": {
			"1|A|x|NULL", "2|B|NULL|NULL", "3|c|new|NULL", "4|d|e|NULL", "9|late|NULL|NULL",
		}} {
			if got := w.database.Rows(schema.Name{Table: name}); !slices.Equal(got, want) {
				t.Errorf("%s = %q, want %q", name, got, want)
			}
		}
	})
}

// TestRowWaitsForTheChangeBeforeIt: the topics are not ordered with each other.
func TestRowWaitsForTheChangeBeforeIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change  func(w *world)
		missing bool
	}{
		"a column": {func(w *world) {
			w.log.change(2010, "ALTER TABLE pet ADD COLUMN age VARCHAR(9)", shape("ALTER", "pet", "id", "kind", "age"))
		}, false},
		"none comes": {func(*world) {}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &world{log: &memoryLog{}, database: sinktest.NewMemory(), store: &memoryStore{}}
				w.log.change(2000, "CREATE TABLE pet (id INT PRIMARY KEY, kind VARCHAR(9))", shape("CREATE", "pet", "id", "kind"))
				w.log.add(debezium.Partition{Topic: "s.d.pet"}, 0, rowAt(2005, "pet", "c", "", `{"id":1,"kind":"cat"}`))
				w.log.add(debezium.Partition{Topic: "s.d.pet"}, 0, rowAt(2020, "pet", "c", "", `{"id":2,"kind":"dog","age":"4"}`))
				err := later(t, w, func() {
					time.Sleep(3 * time.Second)
					c.change(w)
					time.Sleep(time.Minute)
				}, evolving, func(c *checkpoint.Config) { c.Tables.SchemaWait = 10 * time.Second })
				if c.missing {
					var row *sqlgen.RowError
					if !errors.As(err, &row) || row.Class != sqlgen.MissingColumn || row.Column != "age" {
						t.Errorf("Run = %v, want a missing column", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if got, want := w.database.Rows(schema.Name{Table: "pet"}), []string{"1|cat|NULL", "2|dog|4"}; !slices.Equal(got, want) {
					t.Errorf("pet = %q, want %q", got, want)
				}
			})
		})
	}
}

// TestChangesAreReadBeforeTheRowsThatFollowThem: the rows of before and after have the same columns, and come at once.
func TestChangesAreReadBeforeTheRowsThatFollowThem(t *testing.T) {
	t.Parallel()
	for what, ddl := range map[string]func(*world){
		"emptied": func(w *world) { w.log.change(2010, "TRUNCATE TABLE pet") },
		"made anew": func(w *world) {
			w.log.change(2010, "DROP TABLE pet", drop("pet"))
			w.log.change(2011, "CREATE TABLE pet (id INT PRIMARY KEY, kind VARCHAR(9))", shape("CREATE", "pet", "id", "kind"))
		},
		"another": func(w *world) {
			w.log.change(2010, "RENAME TABLE pet TO old", shape("ALTER", "old", "id", "kind"))
			w.log.change(2011, "CREATE TABLE pet (id INT PRIMARY KEY, kind VARCHAR(9))", shape("CREATE", "pet", "id", "kind"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := &world{log: &memoryLog{late: true}, database: sinktest.NewMemory(), store: &memoryStore{}}
				w.log.change(2000, "CREATE TABLE pet (id INT PRIMARY KEY, kind VARCHAR(9))", shape("CREATE", "pet", "id", "kind"))
				ddl(w)
				w.log.add(debezium.Partition{Topic: "s.d.pet"}, 0, rowAt(2005, "pet", "c", "", `{"id":1,"kind":"cat"}`))
				w.log.add(debezium.Partition{Topic: "s.d.pet"}, 0, rowAt(2020, "pet", "c", "", `{"id":2,"kind":"dog"}`))
				if _, err := w.start(t.Context(), checkpoint.TwoPhase, fault{}, evolving); err != nil {
					t.Fatal(err)
				}
				if got, want := w.database.Rows(schema.Name{Table: "pet"}), []string{"2|dog"}; !slices.Equal(got, want) {
					t.Errorf("pet = %q, want %q", got, want)
				}
			})
		})
	}
}

// TestRefusedRowMayFollowAChangeThatItDoesNotShow: a wider text has the same shape in an event.
func TestRefusedRowMayFollowAChangeThatItDoesNotShow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{log: &memoryLog{}, database: sinktest.NewMemory(), store: &memoryStore{}}
		w.log.change(2000, "CREATE TABLE pet (id INT PRIMARY KEY, kind VARCHAR(9))", shape("CREATE", "pet", "id", "kind"))
		w.log.add(debezium.Partition{Topic: "s.d.pet"}, 0, rowAt(2005, "pet", "c", "", `{"id":1,"kind":"cat"}`))
		w.log.add(debezium.Partition{Topic: "s.d.pet"}, 0, rowAt(2020, "pet", "c", "", `{"id":2,"kind":"a long-haired dog"}`))
		wide := strings.Replace(shape("ALTER", "pet", "id", "kind"), `"length":9,"position":2`, `"length":50,"position":2`, 1)
		unseen := &unseenChange{Source: w.log, then: func() { w.log.change(2010, "ALTER TABLE pet MODIFY kind VARCHAR(50)", wide) }}
		_, err := w.start(t.Context(), checkpoint.TwoPhase, fault{}, evolving, func(c *checkpoint.Config) { c.Source = unseen })
		if err != nil {
			t.Fatal(err)
		}
		if got, want := w.database.Rows(schema.Name{Table: "pet"}), []string{"1|cat", "2|a long-haired dog"}; !slices.Equal(got, want) {
			t.Errorf("pet = %q, want %q", got, want)
		}
	})
}

// unseenChange is a source whose schema-change topic gets a record right after it was read first.
type unseenChange struct {
	checkpoint.Source
	then func()
}

func (u *unseenChange) History(ctx context.Context, topic string, from int64) ([]debezium.Record, int64, error) {
	records, next, err := u.Source.History(ctx, topic, from)
	if u.then != nil {
		u.then()
		u.then = nil
	}
	return records, next, err
}

// TestRefusedRowMayFollowAChangeFoundMeanwhile: the change was read while the row waited to be applied, so that there is nothing more
// to be read when the row is refused.
func TestRefusedRowMayFollowAChangeFoundMeanwhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{log: &memoryLog{}, database: sinktest.NewMemory(), store: &memoryStore{}}
		needed := strings.ReplaceAll(shape("CREATE", "pet", "id", "kind"), `"optional":true`, `"optional":false`)
		w.log.change(2000, "CREATE TABLE pet (id INT PRIMARY KEY, kind VARCHAR(9) NOT NULL)", needed)
		w.log.add(debezium.Partition{Topic: "s.d.pet"}, 0, rowAt(2005, "pet", "c", "", `{"id":1,"kind":"cat"}`))
		w.log.add(debezium.Partition{Topic: "s.d.pet"}, 0, rowAt(2020, "pet", "c", "", `{"id":2,"kind":null}`))
		err := later(t, w, func() {
			time.Sleep(500 * time.Millisecond) // the rows are routed, and applied after 10 s or when the change is found
			w.log.change(2010, "ALTER TABLE pet MODIFY kind VARCHAR(9) NULL", shape("ALTER", "pet", "id", "kind"))
			time.Sleep(time.Minute)
		}, evolving, func(c *checkpoint.Config) { c.Interval, c.MinInterval, c.Rows = 10*time.Second, 10*time.Second, 1000 })
		if err != nil {
			t.Fatal(err)
		}
		if got, want := w.database.Rows(schema.Name{Table: "pet"}), []string{"1|cat", "2|NULL"}; !slices.Equal(got, want) {
			t.Errorf("pet = %q, want %q", got, want)
		}
	})
}
