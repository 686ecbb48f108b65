package checkpoint_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"replicator/checkpoint"
	"replicator/txnsink"
)

// TestRunEndsAtACheckpoint: a second pipeline that is to end where the first one saved a checkpoint has the rows that the first had then.
func TestRunEndsAtACheckpoint(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := newWorld()
		if _, err := first.start(t.Context(), checkpoint.TwoPhase, fault{}); err != nil {
			t.Fatal(err)
		}
		for i, until := range first.store.saved {
			w := newWorld()
			set := func(c *checkpoint.Config) { c.Until = until.Positions }
			if _, err := w.start(t.Context(), checkpoint.TwoPhase, fault{}, set); err != nil {
				t.Fatal(err)
			}
			last := w.store.saved[len(w.store.saved)-1]
			for p, pos := range until.Positions {
				if last.Positions[p] != pos {
					t.Errorf("until checkpoint %d: ended at %v, want %v", until.ID, last.Positions, until.Positions)
				}
			}
			if i == 0 && len(w.database.Rows(accounts))+len(w.database.Rows(journal)) != 0 {
				t.Error("until the first checkpoint: there are rows")
			}
			// And it goes on from there.
			if _, err := w.start(t.Context(), checkpoint.TwoPhase, fault{}); err != nil {
				t.Fatal(err)
			}
			w.exactly(t, "after going on")
		}
	})
}

func TestRunEndsAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld() // all of whose events are committed at 1 ms
		for until, want := range map[int64]int{0: 0, 1: len(w.keyed)} {
			w := newWorld()
			set := func(c *checkpoint.Config) { c.UntilTime = time.UnixMilli(until) }
			if _, err := w.start(t.Context(), checkpoint.OnePhase, fault{}, set); err != nil {
				t.Fatal(err)
			}
			if got := w.database.Rows(accounts); len(got) != want {
				t.Errorf("until %d ms: accounts = %q, want %d rows", until, got, want)
			}
		}
	})
}

// TestReplayIsRefusedWhereRowsWouldRepeat: beginning before what the target holds needs the operator's word.
func TestReplayIsRefusedWhereRowsWouldRepeat(t *testing.T) {
	t.Parallel()
	for _, d := range exactlyOnce {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			if _, err := w.start(t.Context(), d, fault{}); err != nil {
				t.Fatal(err)
			}
			from := func(id int64) func(*checkpoint.Config) { return func(c *checkpoint.Config) { c.From = id } }
			for range 2 { // the refusal leaves nothing behind
				if _, err := w.start(t.Context(), d, fault{}, from(1)); err == nil || !txnsink.Permanent(err) {
					t.Fatalf("%s: Run = %v, want a refusal", d, err)
				}
			}
			if _, err := w.start(t.Context(), d, fault{}, from(w.store.saved[len(w.store.saved)-1].ID)); err != nil {
				t.Errorf("%s: from the last checkpoint: %v", d, err)
			}
			if _, err := w.start(t.Context(), d, fault{}); err != nil {
				t.Fatal(err)
			}
			w.exactly(t, string(d))
			_, err := w.start(t.Context(), d, fault{}, from(1), func(c *checkpoint.Config) { c.Replay = true })
			if got := w.database.Rows(accounts); err != nil || !slices.Equal(got, w.keyed) {
				t.Errorf("%s: after a replay accounts = %q (%v), want %q", d, got, err, w.keyed)
			}
		})
	}
}

// TestSavepointOutlivesPruning: a running pipeline makes one when it is asked, also when there is nothing to read.
func TestSavepointOutlivesPruning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithCancel(t.Context())
		ask, done := make(chan chan<- checkpoint.Checkpoint), make(chan error, 1)
		go func() {
			_, err := w.start(ctx, checkpoint.TwoPhase, fault{}, func(c *checkpoint.Config) {
				c.UntilCaughtUp, c.Retain, c.Savepoints = false, 1, ask
			})
			done <- err
		}()
		time.Sleep(10 * time.Second) // of the bubble's time: it has caught up
		var made []int64
		for range 2 {
			answer := make(chan checkpoint.Checkpoint, 1)
			ask <- answer
			c := <-answer
			if !c.Savepoint || c.ID != w.store.saved[len(w.store.saved)-1].ID {
				t.Errorf("got %+v", c)
			}
			made = append(made, c.ID)
		}
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		var kept []int64
		for _, c := range w.store.saved {
			if c.Savepoint {
				kept = append(kept, c.ID)
			}
		}
		if !slices.Equal(kept, made) {
			t.Errorf("kept %v, made %v", kept, made)
		}
	})
}
