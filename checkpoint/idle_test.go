package checkpoint_test

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
)

// growingSource is a log to which a test appends while it is read.
type growingSource struct {
	*memoryLog
	reader *memoryReader
}

func (s *growingSource) Open(ctx context.Context, from debezium.Positions) (checkpoint.Reader, error) {
	r, err := s.memoryLog.Open(ctx, from)
	s.reader = r.(*memoryReader)
	return s.reader, err
}

// grow appends when the reader waits. The bubble is still then.
func (s *growingSource) grow(p debezium.Partition, gap int64, values ...string) {
	synctest.Wait()
	s.reader.mu.Lock()
	s.add(p, gap, values...)
	s.reader.mu.Unlock()
	s.reader.Hold(p, false)
}

// idle runs a process on a world that it has caught up with, and has what happens tested.
func idle(t *testing.T, d checkpoint.Delivery, test func(w *world, s *growingSource, calls func() int)) {
	t.Helper()
	w := newWorld()
	s := &growingSource{memoryLog: w.log}
	seams := make(chan *process, 1)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := w.start(ctx, d, fault{}, func(c *checkpoint.Config) {
			seams <- c.Store.(faultyStore).p
			c.Source, c.UntilCaughtUp, c.Retain = s, false, 3
		})
		ended <- err
	}()
	p := <-seams
	time.Sleep(time.Minute) // of the bubble's time, here and below
	synctest.Wait()
	w.judge(t, d, "before it is idle")
	test(w, s, func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.calls
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func (w *world) lastSaved(t *testing.T) checkpoint.Checkpoint {
	t.Helper()
	list, err := w.store.List(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	return list[len(list)-1]
}

// TestIdleDayWritesNothing: where nothing comes nothing is saved and nothing grows, the target is only asked every half minute for what a session
// may have left prepared, and what comes then is applied. The position stays where the log ended: however much of it is deleted meanwhile, it
// begins no later.
func TestIdleDayWritesNothing(t *testing.T) {
	t.Parallel()
	for _, d := range deliveries {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				idle(t, d, func(w *world, s *growingSource, calls func() int) {
					before, saved, goroutines := calls(), w.lastSaved(t), runtime.NumGoroutine()
					time.Sleep(24 * time.Hour)
					synctest.Wait()
					last := w.lastSaved(t)
					if n := calls() - before; n > 24*60*2 || last.ID != saved.ID {
						t.Errorf("in a day %d calls of target and store were made, and checkpoint %d became %d", n, saved.ID, last.ID)
					}
					for p, end := range s.reader.End() {
						if at := last.Positions[p].Offset; at != end {
							t.Errorf("%v: the position is %d, and the log ends at %d", p, at, end)
						}
					}
					if n := runtime.NumGoroutine(); n > goroutines+50 { // those of other tests come and go
						t.Errorf("%d goroutines became %d", goroutines, n)
					}
					s.grow(debezium.Partition{Topic: "s.d.entries", ID: 1}, 0, rowAt(1000, "entries", "c", "", `{"line":"x after a day"}`))
					w.bag = append(w.bag, "x after a day")
					time.Sleep(time.Minute)
					synctest.Wait()
					w.judge(t, d, "after a day")
				})
			})
		})
	}
}

// TestPositionMovesWithoutRows: where only records come that are not for the target (markers of transactions, heartbeats), the position moves
// with them, so that it does not fall out of what the log keeps; as many checkpoints are kept as ever, and the target is not written to.
func TestPositionMovesWithoutRows(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		idle(t, checkpoint.TwoPhase, func(w *world, s *growingSource, _ func() int) {
			p := debezium.Partition{Topic: "s.d.entries", ID: 1}
			begun := w.lastSaved(t)
			const beats = 24 * 6
			for range beats {
				time.Sleep(10 * time.Minute)
				s.grow(p, 7)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			last := w.lastSaved(t)
			got := fmt.Sprint(last.Positions[p].Offset-begun.Positions[p].Offset, w.store.count() <= 3, last.Rows, len(last.Txns), last.ID-begun.ID <= beats)
			if want := fmt.Sprint(7*beats, true, 0, 0, true); got != want {
				t.Errorf("moved, checkpoints kept, rows, transactions, checkpoints made: got %s, want %s", got, want)
			}
			w.judge(t, checkpoint.TwoPhase, "after a day of heartbeats")
		})
	})
}
