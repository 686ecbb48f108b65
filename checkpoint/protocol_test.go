package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
	"replicator/txnsink/sinktest"
)

// Mutations of the protocol that these tests must catch. Each was tried by hand: applied, seen to fail here, undone.
//
//	complete: save before prepare                         TestEveryCrashPoint/two-phase, TestTwoProcesses
//	complete: commit before save in two-phase             TestEveryCrashPoint/two-phase
//	complete: save without Txns                           TestEveryCrashPoint/two-phase
//	complete: roll prepared transactions back on failure  TestEveryCrashPoint/two-phase
//	recover: decide without committing                    TestEveryCrashPoint/two-phase
//	recover: decide without aborting                      TestEveryCrashPoint/two-phase
//	recover: no Fence                                     every test: the sink refuses to begin
//	recover: no first checkpoint                          TestWhereToBeginIsSavedFirst
//	recover: a replay uses old numbers again              TestLostTransactionStops
//	router: a position ahead of what was routed           TestEveryCrashPoint, TestDatabaseCrash
//	lane: begin while the one before is open              TestEveryCrashPoint
//	lane: apply while the one before is in doubt          TestCrashDuringRecovery, TestEveryCrashPointOfSchemaChanges
//	placement: keys not remembered until the barrier      TestNoTwoLanesTouchTheSameRowBetweenBarriers
//	router: cut without place.passed                      TestLanesEndWithTheSourcesRows, in cmd/replicator
//	router: stop without a last checkpoint                TestStopCutsALastCheckpoint
//	at-least-once: save before commit                     TestEveryCrashPoint/at-least-once
//	at-most-once: commit before save                      TestEveryCrashPoint/at-most-once
//	complete: save without Seen                           TestEveryCrashPoint/two-phase

// world is what outlives processes: the log, the database, the saved checkpoints; and what they must come to.
type world struct {
	log      *memoryLog
	database *sinktest.Memory
	store    *memoryStore
	keyed    []string
	bag      []string
}

var (
	accounts = schema.Name{Table: "account"}
	journal  = schema.Name{Table: "entries"} // of another lane than accounts, of two and of three
)

// newWorld has two partitions: changes of a table with a key (creates, updates, deletes, a key that comes back) and
// inserts of a table without one, where a repeated or lost event shows. Both have batches that end in offsets without
// records, and events that the connector sends again.
func newWorld() *world {
	w := &world{log: &memoryLog{}, database: sinktest.NewMemory(), store: &memoryStore{}}
	w.database.CreateTable(schema.Table{
		Name:       accounts,
		Columns:    []schema.Column{{Name: "id", NotNull: true}, {Name: "v"}},
		PrimaryKey: []string{"id"},
	})
	w.database.CreateTable(schema.Table{Name: journal, Columns: []schema.Column{{Name: "line"}}})
	a, j := debezium.Partition{Topic: "s.d.account"}, debezium.Partition{Topic: "s.d.entries", ID: 1}
	pos := 0
	row := func(table, op, before, after string) string { pos++; return rowAt(pos, table, op, before, after) }
	first := []string{row("account", "c", "", `{"id":1,"v":"a"}`), row("account", "c", "", `{"id":2,"v":"b"}`)}
	one := row("entries", "c", "", `{"line":"one"}`)
	w.log.add(a, 0, first...)
	w.log.add(j, 1, one)
	w.log.add(a, 2)
	changed := []string{row("account", "u", `{"id":1,"v":"a"}`, `{"id":1,"v":"A"}`), row("account", "d", `{"id":2,"v":"b"}`, ""), ""}
	w.log.add(a, 0, changed...)
	twos := []string{row("entries", "c", "", `{"line":"two"}`), row("entries", "c", "", `{"line":"two"}`)}
	w.log.add(j, 0, twos...)
	// The connector restarts, twice, and sends again.
	w.log.add(a, 0, append(first, changed...)...)
	w.log.add(j, 0, one, twos[0])
	w.log.add(j, 0, twos...)
	w.log.add(a, 0, row("account", "c", "", `{"id":2,"v":"again"}`), row("account", "c", "", `{"id":3,"v":"c"}`))
	w.log.add(j, 3, row("entries", "d", `{"line":"two"}`, ""), row("entries", "c", "", `{"line":"three"}`))
	w.keyed = []string{"1|A", "2|again", "3|c"}
	w.bag = []string{"one", "three", "two"}
	return w
}

func row(table, op, before, after string) string { return rowAt(4, table, op, before, after) }

func rowAt(pos int, table, op, before, after string) string {
	null := func(s string) string {
		if s == "" {
			return "null"
		}
		return s
	}
	return fmt.Sprintf(`{"before":%s,"after":%s,"source":{"version":"3","connector":"mysql","name":"s","ts_ms":1,"snapshot":"false","db":"d","table":"%s","server_id":1,"file":"b.1","pos":%d,"row":0},"op":"%s","ts_ms":1}`,
		null(before), null(after), table, pos, op)
}

// start runs one process on the world with f injected, until it has caught up or dies.
func (w *world) start(ctx context.Context, d checkpoint.Delivery, f fault, change ...func(*checkpoint.Config)) (*process, error) {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Hour) // of the bubble's time: a run that tries for ever fails
	defer cancel()
	sink := w.database.Sink()
	p := &process{fault: f, die: func() {
		if err := sink.Close(); err != nil {
			panic(err)
		}
	}}
	c := checkpoint.Config{
		Pipeline: "p", Delivery: d, Interval: time.Second, Rows: 2, Bytes: 1 << 20, Retain: 100, Workers: 2,
		Source: faultySource{w.log, p}, Sink: faultySink{sink, p}, Store: faultyStore{w.store, p}, WriteAhead: faultyLog{w.store, p},
		Decoder: debezium.NewDecoder(debezium.DecoderConfig{}), Deduplicate: true, UntilCaughtUp: true,
	}
	for _, ch := range change {
		ch(&c)
	}
	return p, checkpoint.Run(ctx, c)
}

// exactly fails unless the database holds each event once and nothing is in doubt.
func (w *world) exactly(t *testing.T, what string) {
	t.Helper()
	if got := w.database.Rows(accounts); !slices.Equal(got, w.keyed) {
		t.Errorf("%s: accounts = %q, want %q", what, got, w.keyed)
	}
	if got := w.database.Rows(journal); !slices.Equal(got, w.bag) {
		t.Errorf("%s: journal = %q, want %q", what, got, w.bag)
	}
	if got := w.database.Prepared(); len(got) != 0 {
		t.Errorf("%s: in doubt: %v", what, got)
	}
}

// judge checks what the delivery promises.
func (w *world) judge(t *testing.T, d checkpoint.Delivery, what string) {
	t.Helper()
	switch d {
	case checkpoint.TwoPhase, checkpoint.OnePhase, checkpoint.WriteAhead:
		w.exactly(t, what)
	case checkpoint.AtLeastOnce:
		if got := w.database.Rows(accounts); !slices.Equal(got, w.keyed) {
			t.Errorf("%s: accounts = %q, want %q", what, got, w.keyed)
		}
		for _, line := range []string{"one", "three"} { // a delete of "two" that is repeated takes another equal row
			if !slices.Contains(w.database.Rows(journal), line) {
				t.Errorf("%s: journal lost %q: %q", what, line, w.database.Rows(journal))
			}
		}
	case checkpoint.AtMostOnce:
		counts := map[string]int{}
		for _, line := range w.database.Rows(journal) {
			counts[line]++
		}
		for line, n := range counts {
			if limit := map[string]int{"two": 2}[line]; n > max(limit, 1) {
				t.Errorf("%s: journal repeats %q: %d times", what, line, n)
			}
		}
	}
}

// exactlyOnce are the deliveries that neither lose nor repeat.
var exactlyOnce = []checkpoint.Delivery{checkpoint.TwoPhase, checkpoint.OnePhase, checkpoint.WriteAhead}

var deliveries = append(slices.Clone(exactlyOnce), checkpoint.AtLeastOnce, checkpoint.AtMostOnce)

// TestEveryCrashPoint breaks every call of every seam, before and after it takes effect, with an error that passes and
// with the death of the process, which another one follows.
func TestEveryCrashPoint(t *testing.T) {
	t.Parallel()
	for _, d := range deliveries {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			runs, broken := 0, 0
			for _, kind := range []fault{{before: true}, {}, {before: true, death: true}, {death: true}} {
				for n := 1; ; n++ {
					f := kind
					f.at = n
					what := fmt.Sprintf("call %d, before %v, death %v", n, f.before, f.death)
					done := false
					synctest.Test(t, func(t *testing.T) {
						w := newWorld()
						p, err := w.start(t.Context(), d, f)
						done = p.calls < n
						if f.death && errors.Is(err, deadError{}) {
							_, err = w.start(t.Context(), d, fault{})
						}
						if d != checkpoint.AtMostOnce && err != nil || err != nil && !missing(err) {
							t.Fatalf("%s: %v", what, err)
						}
						w.judge(t, d, what)
						if !slices.Equal(w.database.Rows(journal), w.bag) {
							broken++
						}
					})
					runs++
					if t.Failed() || done {
						break
					}
				}
			}
			// The weaker deliveries are seen to repeat or to lose, or this test could see nothing.
			if weak := !slices.Contains(exactlyOnce, d); weak != (broken > 0) {
				t.Errorf("%d of %d runs left the journal in another state than the source's", broken, runs)
			}
			t.Logf("%d runs, %d of them with rows repeated or lost", runs, broken)
		})
	}
}

// missing says whether err is of a row that an at-most-once pipeline has lost, which a later change then misses.
func missing(err error) bool {
	var row *sqlgen.RowError
	return errors.As(err, &row) && row.Class == sqlgen.MissingRow
}

// TestCrashDuringRecovery breaks a second process too, anywhere.
func TestCrashDuringRecovery(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 600 {
		d := deliveries[rng.IntN(4)] // not at-most-once: what it loses may be missed
		faults := make([]fault, 1+rng.IntN(4))
		for i := range faults {
			faults[i] = fault{at: 1 + rng.IntN(60), before: rng.IntN(2) == 0, death: rng.IntN(3) > 0}
		}
		what := fmt.Sprintf("%s %+v", d, faults)
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			for _, f := range append(faults, fault{}) {
				_, err := w.start(t.Context(), d, f)
				if err == nil {
					break
				}
				if !errors.Is(err, deadError{}) {
					t.Fatalf("%s: %v", what, err)
				}
			}
			w.judge(t, d, what)
		})
		if t.Failed() {
			return
		}
	}
}

// TestTwoProcesses lets a process dawdle at each of its calls while another one does the whole job, then go on: it
// ends fenced, and nothing is lost, repeated or in doubt.
func TestTwoProcesses(t *testing.T) {
	t.Parallel()
	for _, d := range exactlyOnce {
		for _, stubborn := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/stubborn=%v", d, stubborn), func(t *testing.T) {
				t.Parallel()
				for n := 1; dawdle(t, d, stubborn, n) && !t.Failed(); n++ {
				}
			})
		}
	}
}

// dawdle pauses a process at its call n. It returns false when the process does not make that many.
func dawdle(t *testing.T, d checkpoint.Delivery, stubborn bool, n int) bool {
	last := false
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.database.Stubborn(stubborn)
		paused, goOn := make(chan struct{}), make(chan struct{})
		old := make(chan error, 1)
		go func() {
			p, err := w.start(t.Context(), d, fault{at: n, pause: func() { close(paused); <-goOn }})
			if p.calls < n {
				last = true
				close(paused)
			}
			old <- err
		}()
		<-paused
		if last {
			if err := <-old; err != nil {
				t.Error(err)
			}
			return
		}
		young := make(chan error, 1)
		go func() {
			_, err := w.start(t.Context(), d, fault{})
			young <- err
		}()
		synctest.Wait()
		close(goOn)
		oldErr, youngErr := <-old, <-young
		switch {
		case youngErr == nil && oldErr == nil: // one ended before the other began
		case youngErr == nil && errors.Is(oldErr, txnsink.ErrFenced):
		case oldErr == nil && errors.Is(youngErr, txnsink.ErrFenced):
		default:
			t.Errorf("call %d: the old process ended with %v, the young one with %v", n, oldErr, youngErr)
		}
		w.exactly(t, fmt.Sprintf("call %d", n))
	})
	return !last
}

// TestWhereToBeginIsSavedFirst: the first checkpoint is saved before anything is applied, so that a crash before the
// first cut does not begin elsewhere.
func TestWhereToBeginIsSavedFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		if _, err := w.start(t.Context(), checkpoint.TwoPhase, fault{}); err != nil {
			t.Fatal(err)
		}
		first := w.store.saved[0]
		if first.ID != 1 || len(first.Txns) != 0 || len(first.Positions) != 2 {
			t.Errorf("first checkpoint = %+v", first)
		}
		for _, p := range first.Positions {
			if p.Offset != 0 {
				t.Errorf("first checkpoint = %+v", first)
			}
		}
	})
}

// TestLostTransactionStops: a saved checkpoint's transaction that somebody rolled back stops the pipeline, and says
// how to replay; the replay then repairs what is keyed.
func TestLostTransactionStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var w *world
		// Die when the first commit is due: its checkpoint is saved, its transactions are prepared.
		var err error
		for n := 1; ; n++ {
			w = newWorld()
			_, err = w.start(t.Context(), checkpoint.TwoPhase, fault{at: n, before: true, death: true})
			if n := len(w.store.saved); n > 0 && len(w.store.saved[n-1].Txns) > 0 && sameIDs(w.database.Prepared(), w.store.saved[n-1].Txns) {
				break
			}
			if err == nil {
				t.Fatal("no crash leaves a saved checkpoint with prepared transactions")
			}
		}
		saved := w.store.saved[len(w.store.saved)-1]
		for _, id := range saved.Txns {
			if err := w.database.Sink().Abort(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		_, err = w.start(t.Context(), checkpoint.TwoPhase, fault{})
		if !errors.Is(err, txnsink.ErrLost) {
			t.Fatalf("Run = %v, want ErrLost", err)
		}
		if want := fmt.Sprintf("run --from %d --replay", saved.ID-1); !regexp.MustCompile(want + "$").MatchString(err.Error()) {
			t.Errorf("Run = %v, want it to name %q", err, want)
		}
		_, err = w.start(t.Context(), checkpoint.TwoPhase, fault{}, func(c *checkpoint.Config) { c.From, c.Replay = saved.ID-1, true })
		if err != nil {
			t.Fatal(err)
		}
		w.exactly(t, "after the replay")
	})
}

func sameIDs(a, b []txnsink.ID) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(id txnsink.ID) bool { return !slices.Contains(b, id) })
}

// TestStopCutsALastCheckpoint: a stop loses nothing, repeats nothing, and waits for what is outstanding.
func TestStopCutsALastCheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := w.start(ctx, checkpoint.TwoPhase, fault{}, func(c *checkpoint.Config) {
				c.UntilCaughtUp, c.Rows, c.Interval = false, 1000, time.Hour
				c.MinInterval = time.Hour
			})
			done <- err
		}()
		synctest.Wait()
		if got := w.database.Rows(accounts); len(got) != 0 {
			t.Errorf("before the stop: accounts = %q", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		w.exactly(t, "after the stop")
	})
}

// TestBadRecordStops: a record that cannot be applied stops the pipeline at its offset, nothing of its checkpoint is
// committed, and the next start stops at it again.
func TestBadRecordStops(t *testing.T) {
	t.Parallel()
	for name, bad := range map[string]string{
		"not JSON":       `{"before":`,
		"unknown column": row("account", "c", "", `{"id":9,"v":"x","nope":1}`),
		"no key":         row("account", "c", "", `{"v":"x"}`),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				p := debezium.Partition{Topic: "s.d.account"}
				batches := w.log.partitions[p]
				w.log.partitions[p] = nil
				w.log.add(p, 0, row("account", "c", "", `{"id":7,"v":"good"}`), bad)
				for range 2 {
					_, err := w.start(t.Context(), checkpoint.TwoPhase, fault{})
					var re *sqlgen.RowError
					if !errors.As(err, &re) || re.Origin.Partition != p || re.Origin.Offset != 1 {
						t.Fatalf("Run = %v, want a row error at %v offset 1", err, p)
					}
					if got := w.database.Rows(accounts); len(got) != 0 {
						t.Errorf("accounts = %q, want none", got)
					}
				}
				// The operator repairs it.
				w.log.partitions[p] = batches
				if _, err := w.start(t.Context(), checkpoint.TwoPhase, fault{}); err != nil {
					t.Fatal(err)
				}
				w.exactly(t, "after the repair")
			})
		})
	}
}

// TestIdleSourceCostsNothing: without progress no checkpoint is cut.
func TestIdleSourceCostsNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := w.start(ctx, checkpoint.TwoPhase, fault{}, func(c *checkpoint.Config) { c.UntilCaughtUp = false })
			done <- err
		}()
		time.Sleep(10 * time.Second) // of the bubble's time
		before := w.store.count()
		time.Sleep(time.Hour)
		if after := w.store.count(); after != before {
			t.Errorf("%d checkpoints in an idle hour", after-before)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	})
}
