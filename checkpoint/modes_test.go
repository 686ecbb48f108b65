package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// More mutations, tried like those in protocol_test.go.
//
//	one-phase: save before commit                       TestCrashDuringRecovery
//	recover: lanes ahead not looked at                  TestCrashDuringRecovery
//	recover: lanes ahead not saved first                TestCrashDuringRecovery
//	cut: Ahead not carried on                           TestDeliveryAndLanesMayChangeAfterACrash
//	router: Ahead taken for the lanes that there are    TestDeliveryAndLanesMayChangeAfterACrash
//	write-ahead: apply before save                      TestCrashDuringRecovery, TestDatabaseCrash
//	write-ahead: recovery does not apply                TestCrashDuringRecovery, TestDatabaseCrash
//	write-ahead: recovery applies without the witness   TestCrashDuringRecovery
//	recover: a later run's witness is believed          TestTwoProcesses

// TestDatabaseCrash crashes the server, which outlives its prepared transactions, at every call.
func TestDatabaseCrash(t *testing.T) {
	t.Parallel()
	for _, d := range exactlyOnce {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			for n, last := 1, false; !last && !t.Failed(); n++ {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld()
					p, err := w.start(t.Context(), d, fault{at: n, pause: w.database.Crash})
					if err != nil {
						t.Fatalf("call %d: %v", n, err)
					}
					last = p.calls < n
					w.exactly(t, fmt.Sprintf("call %d", n))
				})
			}
		})
	}
}

// TestDeliveryAndLanesMayChangeAfterACrash: whatever one process left, the next one takes over, also in another
// exactly-once delivery and with another number of lanes, and dies itself before a third one does the rest.
func TestDeliveryAndLanesMayChangeAfterACrash(t *testing.T) {
	t.Parallel()
	// The first process cuts rarely: what it leaves, the others cut into pieces.
	lanes := func(n, rows int) func(*checkpoint.Config) {
		return func(c *checkpoint.Config) { c.Workers, c.Rows = n, rows }
	}
	for _, first := range exactlyOnce {
		for _, second := range exactlyOnce {
			for i, workers := range [][3]int{{2, 2, 2}, {2, 1, 2}, {1, 2, 2}, {2, 3, 1}} {
				if i > 1 && first != checkpoint.OnePhase {
					continue // the others' transactions carry no positions
				}
				t.Run(fmt.Sprintf("%s to %s, lanes %v", first, second, workers), func(t *testing.T) {
					t.Parallel()
					for n, last := 1, false; !last && !t.Failed(); n++ {
						for _, again := range []int{0, 10, 14, 18, 22, 26} {
							synctest.Test(t, func(t *testing.T) {
								w := newWorld()
								p, err := w.start(t.Context(), first, fault{at: n, death: true}, lanes(workers[0], 6))
								last = p.calls < n
								if err != nil {
									_, err = w.start(t.Context(), second, fault{at: again, death: true}, lanes(workers[1], 1))
								}
								if err != nil {
									_, err = w.start(t.Context(), first, fault{}, lanes(workers[2], 1))
								}
								what := fmt.Sprintf("calls %d and %d", n, again)
								if err != nil {
									t.Fatalf("%s: %v", what, err)
								}
								w.exactly(t, what)
							})
						}
					}
				})
			}
		}
	}
}

// TestPipelineNeedsItsStore: a target that is ahead of an empty store is not written to again from the beginning.
func TestPipelineNeedsItsStore(t *testing.T) {
	t.Parallel()
	for _, d := range deliveries {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			if _, err := w.start(t.Context(), d, fault{}); err != nil {
				t.Fatal(err)
			}
			w.store = &memoryStore{epoch: w.store.epoch}
			_, err := w.start(t.Context(), d, fault{})
			if err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "checkpoint.store") {
				t.Errorf("%s: Run = %v", d, err)
			}
			w.exactly(t, "after the refusal")
		})
	}
}

// TestOlderStoreIsMadeUpFor: one-phase keeps its positions with the rows, so a store that was restored from a backup repeats
// nothing.
func TestOlderStoreIsMadeUpFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		if _, err := w.start(t.Context(), checkpoint.OnePhase, fault{}); err != nil {
			t.Fatal(err)
		}
		if len(w.store.saved) < 4 {
			t.Fatalf("%d checkpoints are too few for this test", len(w.store.saved))
		}
		w.store.saved = w.store.saved[:2]
		if _, err := w.start(t.Context(), checkpoint.OnePhase, fault{}); err != nil {
			t.Fatal(err)
		}
		w.exactly(t, "after the store was restored")
	})
}

// TestLostLogStops: a saved checkpoint whose statements are gone stops the pipeline, and the replay from the one before
// repairs what is keyed.
func TestLostLogStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		_, err := w.start(t.Context(), checkpoint.WriteAhead, fault{}, func(c *checkpoint.Config) { c.Store = dyingStore{c.Store} })
		if !errors.Is(err, deadError{}) {
			t.Fatal(err)
		}
		saved := w.store.saved[len(w.store.saved)-1]
		w.store.parts = nil
		if _, err := w.start(t.Context(), checkpoint.WriteAhead, fault{}); !errors.Is(err, txnsink.ErrLost) {
			t.Fatalf("Run = %v, want ErrLost", err)
		}
		_, err = w.start(t.Context(), checkpoint.WriteAhead, fault{}, func(c *checkpoint.Config) { c.From, c.Replay = saved.ID-1, true })
		if err != nil {
			t.Fatal(err)
		}
		w.exactly(t, "after the replay")
	})
}

// dyingStore is the store of a process that dies when it has saved the first checkpoint with statements.
type dyingStore struct{ checkpoint.Store }

func (s dyingStore) Save(ctx context.Context, c checkpoint.Checkpoint, retain int) error {
	if err := s.Store.Save(ctx, c, retain); err != nil || len(c.Parts) == 0 {
		return err
	}
	return deadError{}
}

// TestRefusedRowOfTheLogIsNamed: a row that the target refuses when its checkpoint is saved already is named as ever,
// and is refused again until somebody sees to the target.
func TestRefusedRowOfTheLogIsNamed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		j := debezium.Partition{Topic: "s.d.entries", ID: 1}
		w.log.add(j, 0, rowAt(900, "entries", "d", `{"line":"never was"}`, ""))
		offset := w.log.partitions[j][len(w.log.partitions[j])-1].Records[0].Offset
		for range 2 {
			_, err := w.start(t.Context(), checkpoint.WriteAhead, fault{})
			var row *sqlgen.RowError
			if !errors.As(err, &row) || row.Class != sqlgen.MissingRow || row.Origin.Partition != j || row.Origin.Offset != offset {
				t.Fatalf("Run = %v, want a missing row at offset %d", err, offset)
			}
		}
	})
}
