package checkpoint_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/schema"
	"replicator/txnsink/sinktest"
)

var wholeScale = flag.Bool("scale", false, "TestHowFarAClusterGoes: all sizes of docs/scale.md, not the smallest ones alone")

// What calls take in this model. A process has one session of the store, on which its slots' saves wait for each other, as in the program.
const (
	storeTakes  = 5 * time.Millisecond
	targetTakes = 2 * time.Millisecond // each call: a batch of statements, PREPARE TRANSACTION, COMMIT PREPARED
	kafkaTakes  = 10 * time.Millisecond
)

// drip is a Source of partitions in which a row comes every so often.
type drip struct {
	parts  []debezium.Partition
	every  time.Duration
	behind bool // there is always more to read
}

type dripReader struct {
	drip
	at   debezium.Positions
	turn int
}

func (d drip) Open(_ context.Context, from debezium.Positions) (checkpoint.Reader, error) {
	time.Sleep(kafkaTakes) // of the bubble's time, as all of these
	r := &dripReader{drip: d, at: debezium.Positions{}}
	for _, p := range d.parts {
		r.at[p] = debezium.Position{Offset: from[p].Offset, TopicID: "t"}
	}
	return r, nil
}

func (drip) History(context.Context, string, int64) ([]debezium.Record, int64, error) {
	return nil, 0, nil
}

func (r *dripReader) Next(ctx context.Context) (debezium.Batch, error) {
	if len(r.parts) == 0 {
		<-ctx.Done()
		return debezium.Batch{}, ctx.Err()
	}
	select {
	case <-ctx.Done():
		return debezium.Batch{}, ctx.Err()
	case <-time.After(r.every / time.Duration(len(r.parts))):
	}
	p := r.parts[r.turn%len(r.parts)]
	r.turn++
	at := r.at[p].Offset
	value := []byte(rowAt(int(at), "account", "r", "", fmt.Sprintf(`{"id":%d,"v":"%d"}`, 10*int64(p.ID)+at%10, at)))
	r.at[p] = debezium.Position{Offset: at + 1, TopicID: "t"}
	b := debezium.Batch{Partition: p, Records: []debezium.Record{{Partition: p, Offset: at, Value: value}}, Bytes: len(value), Next: at + 1, End: at + 1, TopicID: "t"}
	if r.behind {
		b.End += 1000
	}
	return b, nil
}

func (r *dripReader) Start() debezium.Positions { return r.at.Clone() }

func (r *dripReader) End() map[debezium.Partition]int64 {
	out := map[debezium.Partition]int64{}
	for _, p := range r.parts {
		out[p] = 1 << 40
	}
	return out
}

func (r *dripReader) Ends(context.Context) (map[debezium.Partition]int64, error) {
	time.Sleep(kafkaTakes)
	return r.End(), nil
}

func (*dripReader) EndOf(context.Context, string) (int64, error) { return 0, nil }
func (*dripReader) Hold(debezium.Partition, bool)                {}
func (*dripReader) Close() error                                 { return nil }

// ledger is what is known of all slots' checkpoints.
type ledger struct {
	mu    sync.Mutex
	by    map[string]int           // which process saved the last one
	at    map[string]time.Time     // when
	gap   map[string]time.Duration // the longest time between two, since it was cleared
	saves int
	took  []time.Duration // each, from the cut to its end
}

type ledgerStore struct {
	checkpoint.Store
	l   *ledger
	who int
}

func (s ledgerStore) Save(ctx context.Context, c checkpoint.Checkpoint, retain int) error {
	if err := s.Store.Save(ctx, c, retain); err != nil {
		return err
	}
	l, now := s.l, time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if c.Pipeline == "p" {
		return nil // the founding
	}
	if at, was := l.at[c.Pipeline]; was {
		l.gap[c.Pipeline] = max(l.gap[c.Pipeline], now.Sub(at))
	}
	l.by[c.Pipeline], l.at[c.Pipeline] = s.who, now
	l.saves++
	return nil
}

func (l *ledger) observe(o checkpoint.Observation) {
	if c, ok := o.(checkpoint.Completed); ok {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.took = append(l.took, c.Phases.Align+c.Phases.Prepare+c.Phases.Save+c.Phases.Commit)
	}
}

// begin clears what is counted, and returns who has which slot.
func (l *ledger) begin() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	clear(l.gap)
	l.saves, l.took = 0, nil
	out := map[string]int{}
	for slot, who := range l.by {
		out[slot] = who
	}
	return out
}

// even says whether so many slots are divided among the processes evenly.
func (l *ledger) even(slots int, processes ...int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	count := map[int]int{}
	for _, who := range l.by {
		count[who]++
	}
	for _, who := range processes {
		if n := count[who]; n < slots/len(processes) || n > (slots+len(processes)-1)/len(processes) {
			return false
		}
		delete(count, who)
	}
	return len(l.by) == slots && len(count) == 0
}

// pauses returns the longest pause of a slot that has moved since began, and of one that has not.
func (l *ledger) pauses(began map[string]int) (moved, stayed time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for slot, gap := range l.gap {
		if l.by[slot] == began[slot] {
			stayed = max(stayed, gap)
		} else {
			moved = max(moved, gap)
		}
	}
	return moved, stayed
}

// size is a cluster's, with one partition for each slot.
type size struct {
	processes, slots int
	behind           bool
}

// measured is what became of it.
type measured struct {
	start, kill, join, stop time.Duration // until all slots are evenly divided and save
	killed, joined, stopped time.Duration // the longest pause of a slot that moved
	stayed                  time.Duration // and of one that did not, in all of this
	rate                    float64       // checkpoints a second
	mean, most              time.Duration // what one takes
}

// scaleWorld is a cluster that is measured.
type scaleWorld struct {
	*clusterWorld
	size
	l    *ledger
	next int
	all  map[int]*process
	quit map[int]context.CancelFunc

	mu      sync.Mutex
	targets map[string]*sinktest.Memory // a database for each slot: that of the tests is not made for many
}

func (w *scaleWorld) target(pipeline string) *sinktest.Memory {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.targets[pipeline]
	if m == nil {
		m = sinktest.NewMemory()
		m.CreateTable(schema.Table{Name: accounts, Columns: []schema.Column{{Name: "id", NotNull: true}, {Name: "v"}}, PrimaryKey: []string{"id"}})
		w.targets[pipeline] = m
	}
	return m
}

func (w *scaleWorld) add(ctx context.Context) {
	who, one := w.next, make(chan struct{}, 1)
	w.next++
	var mu sync.Mutex
	var sessions []*sinktest.MemorySink
	store := &process{lag: func() {
		one <- struct{}{}
		time.Sleep(storeTakes)
		<-one
	}}
	w.change = func(c *checkpoint.Cluster) {
		c.Observe = w.l.observe
		p := c.Group.(processGroup).p
		p.lag = func() { time.Sleep(targetTakes) }
		p.die = func() {
			store.mu.Lock()
			store.dead = true
			store.mu.Unlock()
			mu.Lock()
			defer mu.Unlock()
			for _, s := range sessions {
				if err := s.Close(); err != nil {
					panic(err)
				}
			}
		}
		open := c.Open
		c.Open = func(ctx context.Context, pipeline string, slot int) (checkpoint.Config, func() error, error) {
			config, done, err := open(ctx, pipeline, slot)
			source := drip{every: 100 * time.Millisecond}
			if w.behind {
				source = drip{every: 400 * time.Millisecond, behind: true}
			}
			for n := range int32(w.slots) {
				p := debezium.Partition{Topic: "s.d.account", ID: n}
				if slot == checkpoint.Whole || checkpoint.SlotOf(p, w.slots) == slot {
					source.parts = append(source.parts, p)
				}
			}
			session := w.target(pipeline).Sink()
			mu.Lock()
			sessions = append(sessions, session)
			mu.Unlock()
			config.Sink = faultySink{session, config.Sink.(faultySink).p}
			config.Source, config.Store, config.Deduplicate = source, ledgerStore{faultyStore{w.stores, store}, w.l, who}, false
			config.Interval, config.MinInterval, config.Rows, config.Workers, config.Retain = time.Second, 20*time.Millisecond, 10_000, 1, 3
			return config, done, err
		}
	}
	ctx, w.quit[who] = context.WithCancel(ctx)
	w.all[who] = w.join(ctx, fault{})
}

// until waits until the slots are even among the processes.
func (w *scaleWorld) until(t *testing.T) time.Duration {
	t.Helper()
	var who []int
	for n := range w.all {
		who = append(who, n)
	}
	began := time.Now()
	for !w.l.even(w.slots, who...) {
		if time.Since(began) > 10*time.Minute {
			t.Fatalf("%+v: not even: %v, errors %v", w.size, w.l.begin(), w.ended())
		}
		time.Sleep(50 * time.Millisecond) // of the bubble's time
	}
	return time.Since(began)
}

// measure founds a cluster of a size, kills a process, adds one and stops one.
func (s size) measure(t *testing.T) (out measured) {
	synctest.Test(t, func(t *testing.T) {
		w := &scaleWorld{
			clusterWorld: newClusterWorld(checkpoint.TwoPhase), size: s, l: &ledger{by: map[string]int{}, at: map[string]time.Time{}, gap: map[string]time.Duration{}},
			all: map[int]*process{}, quit: map[int]context.CancelFunc{}, targets: map[string]*sinktest.Memory{},
		}
		w.group.slots = s.slots
		w.world.log = &memoryLog{}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		for range s.processes {
			w.add(ctx)
		}
		out.start = w.until(t)
		time.Sleep(2 * session)
		w.l.begin()
		time.Sleep(session)
		w.l.mu.Lock()
		out.rate = float64(w.l.saves) / session.Seconds()
		for _, d := range w.l.took {
			out.mean += d / time.Duration(len(w.l.took))
			out.most = max(out.most, d)
		}
		w.l.mu.Unlock()

		step := func(do func()) (took, moved time.Duration) {
			before := w.l.begin()
			do()
			took = w.until(t)
			time.Sleep(session)
			moved, stayed := w.l.pauses(before)
			out.stayed = max(out.stayed, stayed)
			return took, moved
		}
		out.kill, out.killed = step(func() { w.all[0].kill(); delete(w.all, 0) })
		out.join, out.joined = step(func() { w.add(ctx) })
		out.stop, out.stopped = step(func() { w.quit[1](); delete(w.all, 1) })
		stop()
		w.wait.Wait()
		for _, err := range w.ended() {
			if err != nil {
				t.Error(err)
			}
		}
	})
	return out
}

// beat is how often a member tells the group that it lives.
const beat = session / 10

// TestHowFarAClusterGoes measures clusters by the model above, for docs/scale.md: a process that dies is followed within the session's time-out
// and a few beats, and one that comes or goes stops nothing but what moves, for a few beats.
func TestHowFarAClusterGoes(t *testing.T) {
	t.Parallel()
	sizes := []size{{2, 16, true}, {4, 16, true}, {4, 16, false}}
	if *wholeScale {
		sizes = nil
		for _, n := range []int{2, 5, 10, 20} {
			sizes = append(sizes, size{n, 100, true})
		}
		for _, n := range []int{16, 50, 200, 400} {
			sizes = append(sizes, size{5, n, true})
		}
		for _, n := range []int{16, 50, 100} {
			sizes = append(sizes, size{5, n, false})
		}
		sizes = append(sizes, size{2, 50, false})
	}
	slices.SortFunc(sizes, func(a, b size) int { return a.slots*a.processes - b.slots*b.processes })
	for _, s := range sizes {
		t.Run(fmt.Sprintf("%d processes, %d slots, behind=%v", s.processes, s.slots, s.behind), func(t *testing.T) {
			t.Parallel()
			m := s.measure(t)
			t.Logf("%+v", m)
			if *wholeScale {
				return
			}
			if m.kill > session+8*beat || m.join > 8*beat || m.stop > 8*beat || m.stayed > 8*beat {
				t.Errorf("a process that dies is followed, and one that comes or goes is taken account of, too late: %+v", m)
			}
		})
	}
}
