package checkpoint_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/txnsink/sinktest"
)

// Mutations that these tests must catch, tried by hand like those in protocol_test.go.
//
//	founded twice                                   TestEveryCrashPointOfACluster
//	Share: what is held is given away               TestShare, TestRandomClusters: a process holds what another was given
//	origin: positions not taken over                TestAPipelineThatRanAloneGoesOnAsACluster
//	origin: what lanes are ahead not taken over     TestAPipelineThatRanAloneGoesOnAsACluster/one-phase
//	origin: what was seen not taken over            TestAPipelineThatRanAloneGoesOnAsACluster
//	SlotOf: another function                        TestSlotOf
//	define: without what it was planned for         TestATableThatAnotherChangesBetweenAPlanAndItsExecution
//	drop: join before the runs have ended           TestAProcessThatWasPutOutJoinsWithNothing
//	runSlot, begin: begin without a beat            TestASlotBeginsOnlyWhenTheGroupConfirms
//
// The last two do no harm to what is written, as the store and the sink fence such a process: those tests look at what it begins.

const (
	session = 10 * time.Second
	slots   = 4
)

// clusterWorld is a world whose pipeline several processes run.
type clusterWorld struct {
	*world
	stores *memoryStores
	group  *coordinator
	d      checkpoint.Delivery
	change func(*checkpoint.Cluster)
	wait   sync.WaitGroup

	stopped time.Time // by finish

	mu   sync.Mutex
	errs []error
}

// ended returns what processes that are not dead have returned.
func (w *clusterWorld) ended() []error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.errs)
}

func newClusterWorld(d checkpoint.Delivery) *clusterWorld {
	return &clusterWorld{
		world: newWorld(), stores: &memoryStores{}, d: d,
		group: &coordinator{slots: slots, session: session, members: map[string]*memberState{}},
	}
}

// join starts a process with f injected.
func (w *clusterWorld) join(ctx context.Context, f fault) *process {
	var mu sync.Mutex
	var sinks []*sinktest.MemorySink
	p := &process{fault: f, die: func() {
		mu.Lock()
		defer mu.Unlock()
		for _, s := range sinks {
			if err := s.Close(); err != nil {
				panic(err)
			}
		}
	}}
	group := w.group // that the next one to join may find replaced
	c := checkpoint.Cluster{
		Pipeline: "p", Slots: group.slots, Source: "k", Session: session, Group: processGroup{&memoryGroup{c: group}, p},
		Open: func(_ context.Context, pipeline string, slot int) (checkpoint.Config, func() error, error) {
			sink := w.database.Sink()
			mu.Lock()
			sinks = append(sinks, sink)
			mu.Unlock()
			part := &memoryLog{partitions: map[debezium.Partition][]debezium.Batch{}}
			for at, batches := range w.log.partitions {
				if slot == checkpoint.Whole || checkpoint.SlotOf(at, group.slots) == slot {
					part.partitions[at] = batches
				}
			}
			return checkpoint.Config{
				Pipeline: pipeline, Delivery: w.d, Interval: time.Second, Rows: 2, Bytes: 1 << 20, Retain: 100, Workers: 2,
				Source: slowSource{faultySource{part, p}}, Sink: faultySink{sink, p}, Store: faultyStore{w.stores, p}, WriteAhead: faultyLog{w.stores, p},
				Decoder: debezium.NewDecoder(debezium.DecoderConfig{}), Deduplicate: true,
			}, func() error { return nil }, nil
		},
	}
	if w.change != nil {
		w.change(&c)
	}
	w.wait.Go(func() {
		err := checkpoint.RunCluster(ctx, c)
		if p.isDead() {
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.errs = append(w.errs, err)
	})
	return p
}

func (p *process) isDead() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dead
}

// caughtUp says whether the saved checkpoints are at the ends of all partitions, and nothing is in doubt.
func (w *clusterWorld) caughtUp() bool {
	at := w.stores.reached()
	for p, batches := range w.log.partitions {
		if at[p].Offset < batches[len(batches)-1].Next {
			return false
		}
	}
	return len(w.database.Prepared()) == 0
}

// settle is how long finish waits for who has died just now to be followed: the last checkpoint's transactions may be in the log only.
const settle = 3 * session

// finish waits until everything was read, stops the processes and returns what they returned.
func (w *clusterWorld) finish(t *testing.T, stop context.CancelFunc, what string) []error {
	t.Helper()
	until := time.Now().Add(time.Hour) // of the bubble's time
	for !w.caughtUp() {
		if w.d == checkpoint.AtMostOnce && slices.ContainsFunc(w.ended(), missing) {
			break // what was lost is missed
		}
		if time.Now().After(until) {
			stop()
			w.wait.Wait()
			t.Fatalf("%s: not caught up: at %v, in doubt %v, errors %v", what, w.stores.reached(), w.database.Prepared(), w.errs)
		}
		time.Sleep(100 * time.Millisecond) // of the bubble's time
	}
	time.Sleep(settle)
	w.stopped = time.Now()
	stop()
	w.wait.Wait()
	return w.ended()
}

// slowSource takes a while for every batch, so that processes come and go while there is something to read.
type slowSource struct{ checkpoint.Source }

type slowReader struct{ checkpoint.Reader }

func (s slowSource) Open(ctx context.Context, from debezium.Positions) (checkpoint.Reader, error) {
	r, err := s.Source.Open(ctx, from)
	if err != nil {
		return nil, err
	}
	return slowReader{r}, nil
}

func (r slowReader) Next(ctx context.Context) (debezium.Batch, error) {
	select {
	case <-time.After(session / 4):
	case <-ctx.Done():
		return debezium.Batch{}, ctx.Err()
	}
	return r.Reader.Next(ctx)
}

// TestEveryCrashPointOfACluster breaks every call of one of three processes: by an error before and after it took effect, by the process's
// death, and by its doing nothing for longer than a session, after which it wakes up and believes to be a member still.
func TestEveryCrashPointOfACluster(t *testing.T) {
	t.Parallel()
	for _, d := range deliveries {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			total := 0
			synctest.Test(t, func(t *testing.T) {
				w := newClusterWorld(d)
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				p := w.join(ctx, fault{})
				w.finish(t, stop, "without a fault")
				total = p.calls - int(settle/(2*time.Second)) // those that an idle run makes
				w.judge(t, d, "without a fault")
			})
			step := 3 // each call is broken in one way or another; TestEveryCrashPoint breaks a slot's in every way
			if d != checkpoint.TwoPhase {
				step = 7
			}
			for i, kind := range []fault{{before: true}, {}, {before: true, death: true}, {death: true}, {freeze: 3 * session}} {
				for n := 1 + i%step; n <= total; n += step {
					f := kind
					f.at = n
					what := fmt.Sprintf("call %d of %d, before %v, death %v, freeze %v", n, total, f.before, f.death, f.freeze)
					synctest.Test(t, func(t *testing.T) {
						w := newClusterWorld(d)
						ctx, stop := context.WithCancel(t.Context())
						defer stop()
						w.join(ctx, f)
						time.Sleep(session / 3) // of the bubble's time, as below
						w.join(ctx, fault{})
						time.Sleep(session / 2)
						w.join(ctx, fault{})
						for _, err := range w.finish(t, stop, what) {
							if err != nil && (d != checkpoint.AtMostOnce || !missing(err)) {
								t.Errorf("%s: %v", what, err)
							}
						}
						w.judge(t, d, what)
					})
				}
			}
		})
	}
}
