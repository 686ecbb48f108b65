package checkpoint_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"replicator/checkpoint"
)

// moodyGroup gives every slot to its one member, and answers beats as a test says.
type moodyGroup struct {
	onJoin func()

	mu   sync.Mutex
	beat error
}

func (g *moodyGroup) Join(context.Context, []int) ([]int, error) {
	time.Sleep(session / 100) // of the bubble's time: the answer comes later than the question
	g.onJoin()
	all := make([]int, slots)
	for i := range all {
		all[i] = i
	}
	return all, nil
}

func (g *moodyGroup) Beat(context.Context) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return false, g.beat
}

func (g *moodyGroup) Leave(context.Context) error { return nil }

func (g *moodyGroup) answer(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.beat = err
}

// beginnings is what was begun of slots: their connections, and their recoveries.
type beginnings struct{ opened, acquired atomic.Int64 }

func (b *beginnings) count() [2]int64 { return [2]int64{b.opened.Load(), b.acquired.Load()} }

// acquiringStore counts recoveries, and fails to save while failing is set.
type acquiringStore struct {
	checkpoint.Store
	b       *beginnings
	failing *atomic.Bool
}

func (s acquiringStore) Acquire(ctx context.Context, pipeline string) (checkpoint.Checkpoint, error) {
	s.b.acquired.Add(1)
	return s.Store.Acquire(ctx, pipeline)
}

func (s acquiringStore) Save(ctx context.Context, c checkpoint.Checkpoint, retain int) error {
	if s.failing.Load() {
		return errFault
	}
	return s.Store.Save(ctx, c, retain)
}

// TestASlotBeginsOnlyWhenTheGroupConfirms: while the group does not answer a process begins no run of a slot, not its first, not one after
// it was fenced, and not one after a failure that may pass. For all it knows the slot is another's by now, which it would fence.
func TestASlotBeginsOnlyWhenTheGroupConfirms(t *testing.T) {
	t.Parallel()
	for name, breakIt := range map[string]func(*testing.T, *clusterWorld, []string, *atomic.Bool){
		"first": nil,
		"fenced": func(t *testing.T, w *clusterWorld, names []string, _ *atomic.Bool) {
			for _, name := range names {
				if _, err := w.stores.Acquire(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
		},
		"failed": func(_ *testing.T, _ *clusterWorld, _ []string, failing *atomic.Bool) { failing.Store(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, b, group, failing := newClusterWorld(checkpoint.TwoPhase), &beginnings{}, &moodyGroup{onJoin: func() {}}, &atomic.Bool{}
				var mu sync.Mutex
				var names []string
				w.change = func(c *checkpoint.Cluster) {
					open := c.Open
					c.Group = group
					c.Open = func(ctx context.Context, pipeline string, slot int) (checkpoint.Config, func() error, error) {
						config, done, err := open(ctx, pipeline, slot)
						if slot != checkpoint.Whole {
							b.opened.Add(1)
							config.Store = acquiringStore{config.Store, b, failing}
							mu.Lock()
							names = append(names, pipeline)
							mu.Unlock()
						}
						return config, done, err
					}
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				if breakIt == nil {
					group.answer(errFault)
				}
				w.join(ctx, fault{})
				time.Sleep(session / 5) // of the bubble's time, as below
				if breakIt != nil {
					group.answer(errFault)
					mu.Lock()
					breakIt(t, w, slices.Clone(names), failing)
					mu.Unlock()
				}
				before := b.count()
				time.Sleep(session * 7 / 10) // it may be a member still
				if now := b.count(); now != before {
					t.Errorf("%v runs were connected and recovered without the group, %v before", now, before)
				}
				failing.Store(false)
				group.answer(nil)
				time.Sleep(session)
				if now := b.count(); now[0] == 0 || breakIt != nil && now[1] == before[1] {
					t.Errorf("%v runs were connected and recovered in all, %v before: nothing was begun when the group had answered", now, before)
				}
				for _, err := range w.finish(t, stop, name) {
					if err != nil {
						t.Error(err)
					}
				}
				w.exactly(t, name)
			})
		})
	}
}

// TestAProcessThatWasPutOutJoinsWithNothing: it joins anew when each of its runs has ended, however long that takes. Otherwise it would
// be given what it still holds, or what another process holds by then.
func TestAProcessThatWasPutOutJoinsWithNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newClusterWorld(checkpoint.TwoPhase)
		var running, joins atomic.Int64
		group := &moodyGroup{onJoin: func() {
			joins.Add(1)
			if n := running.Load(); n > 0 {
				t.Errorf("it joins while %d slots run", n)
			}
		}}
		w.change = func(c *checkpoint.Cluster) {
			open := c.Open
			c.Group = group
			c.Open = func(ctx context.Context, pipeline string, slot int) (checkpoint.Config, func() error, error) {
				config, done, err := open(ctx, pipeline, slot)
				if slot != checkpoint.Whole {
					running.Add(1)
					done = func() error {
						time.Sleep(3 * session) // of the bubble's time
						running.Add(-1)
						return nil
					}
				}
				return config, done, err
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		w.join(ctx, fault{})
		time.Sleep(session / 5)
		if running.Load() != slots {
			t.Fatalf("%d slots run, want %d", running.Load(), slots)
		}
		group.answer(checkpoint.ErrNotMember)
		time.Sleep(session / 2)
		group.answer(nil)
		time.Sleep(4 * session)
		if joins.Load() != 2 || running.Load() != slots {
			t.Errorf("%d times joined, and %d slots run, want 2 and %d", joins.Load(), running.Load(), slots)
		}
		for _, err := range w.finish(t, stop, "put out") {
			if err != nil {
				t.Error(err)
			}
		}
		w.exactly(t, "put out")
	})
}
