package checkpoint_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"replicator/checkpoint"
)

// TestPausedPipelineAppliesNothing: a closed gate keeps rows out, and what comes after it is all of them, once.
func TestPausedPipelineAppliesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, gate := newWorld(), checkpoint.NewGate()
		gate.Pause(true)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := w.start(ctx, checkpoint.TwoPhase, fault{}, func(c *checkpoint.Config) { c.UntilCaughtUp, c.Gate = false, gate })
			done <- err
		}()
		time.Sleep(time.Minute) // of the bubble's time
		if n := len(w.database.Rows(accounts)) + len(w.database.Rows(journal)); n != 0 {
			t.Errorf("%d rows while it is paused", n)
		}
		gate.Pause(false)
		time.Sleep(time.Minute)
		cancel()
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		w.exactly(t, "after the pause")
	})
}

// TestObservationsAddUp: what is told of the checkpoints is what they hold, and at the end nothing is in doubt.
func TestObservationsAddUp(t *testing.T) {
	t.Parallel()
	for _, d := range exactlyOnce {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld()
			var mu sync.Mutex
			var saved, counted, recovered int64
			var doubts, most int
			_, err := w.start(t.Context(), d, fault{}, func(c *checkpoint.Config) {
				c.Observe = func(o checkpoint.Observation) {
					mu.Lock()
					defer mu.Unlock()
					switch o := o.(type) {
					case checkpoint.Recovered:
						recovered++
					case checkpoint.Completed:
						saved += o.Checkpoint.Rows
						for _, table := range o.Tables {
							for _, n := range table.Ops {
								counted += n
							}
						}
					case checkpoint.InDoubt:
						doubts = len(o.Txns)
						most = max(most, doubts)
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			want := int64(0)
			for _, c := range w.store.saved {
				want += c.Rows
			}
			if recovered != 1 || want == 0 || saved != want || counted != want {
				t.Errorf("%s: %d recoveries, %d rows told of, %d counted by table, %d saved", d, recovered, saved, counted, want)
			}
			if doubts != 0 || (most > 0) != (d == checkpoint.TwoPhase) {
				t.Errorf("%s: %d in doubt at the end, %d at most", d, doubts, most)
			}
		})
	}
}
