package checkpoint_test

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
)

// watcher is told by a process.
type watcher struct {
	mu        sync.Mutex
	progress  checkpoint.Progress
	positions debezium.Positions
	released  map[debezium.Partition]bool
	joined    [][]int
	rows      int64
	doubts    int
}

func (w *watcher) observe(o checkpoint.Observation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch o := o.(type) {
	case checkpoint.Joined:
		w.joined = append(w.joined, o.Slots)
	case checkpoint.Released:
		for _, p := range o.Partitions {
			w.released[p] = true
		}
	case checkpoint.Recovered:
		w.positions = o.Positions
	case checkpoint.Completed:
		w.positions, w.rows = o.Checkpoint.Positions, w.rows+o.Checkpoint.Rows
	case checkpoint.InDoubt:
		w.doubts = len(o.Txns)
	}
}

func (w *watcher) progressed(p checkpoint.Progress) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.progress = p
}

// TestAProcessIsSeenAsOnePipeline: its slots are counted together, also when some move to another process.
func TestAProcessIsSeenAsOnePipeline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newClusterWorld(checkpoint.TwoPhase)
		w.grow(rand.New(rand.NewPCG(3, 3)))
		var all []*watcher
		w.change = func(c *checkpoint.Cluster) {
			one := &watcher{released: map[debezium.Partition]bool{}}
			all = append(all, one)
			c.Observe, c.Progress = one.observe, one.progressed
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		w.join(ctx, fault{})
		time.Sleep(2 * session) // of the bubble's time
		w.join(ctx, fault{})
		for _, err := range w.finish(t, stop, "two processes") {
			if err != nil {
				t.Error(err)
			}
		}
		w.exactly(t, "two processes")
		var events, rows, doubts int64
		for _, one := range all {
			events, rows, doubts = events+one.progress.Events, rows+one.rows, doubts+int64(one.doubts)
		}
		// 80 events were added, and the world has 11 that are not sent again.
		if events != 91 || rows != events || doubts != 0 {
			t.Errorf("%d events, %d rows, %d in doubt", events, rows, doubts)
		}
		first, second := all[0], all[1]
		if got := first.joined[0]; !slices.Equal(got, []int{0, 1, 2, 3}) {
			t.Errorf("the first was alone and had slots %v", got)
		}
		if a, b := first.joined[len(first.joined)-1], second.joined[len(second.joined)-1]; len(a) != 2 || len(b) != 2 {
			t.Errorf("the slots are %v and %v", a, b)
		}
		moved := slices.Collect(maps.Keys(second.released))
		if len(first.released) != len(w.log.partitions) || len(moved) == 0 || len(moved) == len(w.log.partitions) {
			t.Errorf("the first has let go of %v, the second of %v", first.released, moved)
		}
	})
}
