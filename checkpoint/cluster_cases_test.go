package checkpoint_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
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

// TestRandomClusters has processes come and go, die and freeze at random while a longer log of six partitions is read.
func TestRandomClusters(t *testing.T) {
	t.Parallel()
	for _, d := range exactlyOnce {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20) {
				synctest.Test(t, func(t *testing.T) {
					random := rand.New(rand.NewPCG(seed, 9))
					w := newClusterWorld(d)
					w.grow(random)
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					w.join(ctx, fault{})
					for range 8 {
						time.Sleep(time.Duration(random.Int64N(int64(session)))) // of the bubble's time
						one, leave := context.WithCancel(ctx)
						f := fault{at: 1 + random.IntN(150), before: random.IntN(2) == 0}
						switch random.IntN(4) {
						case 0:
							f.death = true
						case 1:
							f.freeze = time.Duration(random.Int64N(int64(3 * session)))
						case 2:
							time.AfterFunc(time.Duration(random.Int64N(int64(3*session))), leave)
						}
						w.join(one, f)
						defer leave()
					}
					what := fmt.Sprintf("seed %d", seed)
					for _, err := range w.finish(t, stop, what) {
						if err != nil {
							t.Errorf("%s: %v", what, err)
						}
					}
					w.exactly(t, what)
				})
			}
		})
	}
}

// grow adds partitions to the log: of accounts with keys of their own, and of lines that come once.
func (w *clusterWorld) grow(random *rand.Rand) {
	for n := range int32(2) {
		a, j := debezium.Partition{Topic: "s.d.account", ID: 1 + n}, debezium.Partition{Topic: "s.d.entries", ID: 2 + n}
		pos, value := 1000, map[int]string{}
		for i := range 20 {
			id := 100*int(n+1) + random.IntN(5)
			after := fmt.Sprintf(`{"id":%d,"v":"%d"}`, id, i)
			op, before := "c", ""
			if old, known := value[id]; known {
				op, before = "u", fmt.Sprintf(`{"id":%d,"v":"%s"}`, id, old)
			}
			value[id] = fmt.Sprint(i)
			line := fmt.Sprintf("line %d.%d", n, i)
			pos++
			w.log.add(a, int64(random.IntN(2)), rowAt(pos, "account", op, before, after))
			w.log.add(j, int64(random.IntN(2)), rowAt(pos, "entries", "c", "", `{"line":"`+line+`"}`))
			w.bag = append(w.bag, line)
		}
		for id, v := range value {
			w.keyed = append(w.keyed, fmt.Sprintf("%d|%s", id, v))
		}
	}
	slices.Sort(w.keyed)
	slices.Sort(w.bag)
}

// TestAPipelineThatRanAloneGoesOnAsACluster kills the process that runs alone at every point.
func TestAPipelineThatRanAloneGoesOnAsACluster(t *testing.T) {
	t.Parallel()
	for _, d := range exactlyOnce {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			for n := 1; ; n += 2 {
				hit := false
				synctest.Test(t, func(t *testing.T) {
					w := newClusterWorld(d)
					p, err := w.start(t.Context(), d, fault{at: n, death: true}, func(c *checkpoint.Config) {
						c.Store.(faultyStore).p.die = func() {}
						c.Store, c.WriteAhead = faultyStore{w.stores, c.Store.(faultyStore).p}, faultyLog{w.stores, c.Store.(faultyStore).p}
					})
					hit = p.calls >= n
					if err != nil && !errors.Is(err, deadError{}) {
						t.Fatal(err)
					}
					w.database.Crash()
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					w.join(ctx, fault{})
					w.join(ctx, fault{})
					what := fmt.Sprintf("died at call %d", n)
					for _, err := range w.finish(t, stop, what) {
						if err != nil {
							t.Errorf("%s: %v", what, err)
						}
					}
					w.exactly(t, what)
				})
				if !hit {
					return
				}
			}
		})
	}
}

func TestAClusterIsNotRunAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newClusterWorld(checkpoint.TwoPhase)
		ctx, stop := context.WithCancel(t.Context())
		w.join(ctx, fault{})
		w.finish(t, stop, "a cluster")
		_, err := w.start(t.Context(), checkpoint.TwoPhase, fault{}, func(c *checkpoint.Config) { c.Store = w.stores })
		if err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "cluster: true") {
			t.Errorf("got %v", err)
		}
		w.exactly(t, "after the refusal")
	})
}

// TestAnotherClusterIsRefused: the store knows of which Kafka cluster the pipeline's cluster is, and its slots.
func TestAnotherClusterIsRefused(t *testing.T) {
	t.Parallel()
	for want, change := range map[string]func(*checkpoint.Cluster){
		"each pipeline a name of its own": func(c *checkpoint.Cluster) { c.Source = "another" },
		"set membership.slots to that":    func(c *checkpoint.Cluster) { c.Slots = 5 },
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newClusterWorld(checkpoint.TwoPhase)
			ctx, stop := context.WithCancel(t.Context())
			w.join(ctx, fault{})
			w.finish(t, stop, "a cluster")
			w.change = change
			w.errs = nil
			w.join(t.Context(), fault{})
			w.wait.Wait()
			if len(w.errs) != 1 || w.errs[0] == nil || !txnsink.Permanent(w.errs[0]) || !strings.Contains(w.errs[0].Error(), want) {
				t.Errorf("got %v, want %q", w.errs, want)
			}
		})
	}
}

// TestTwoGroupsOfOnePipelineEnd: two processes that each believe to be the only member, as where somebody has set up the group twice, fence
// each other a few times; then both say so. Nothing is lost or repeated.
func TestTwoGroupsOfOnePipelineEnd(t *testing.T) {
	t.Parallel()
	for _, d := range exactlyOnce {
		synctest.Test(t, func(t *testing.T) {
			w := newClusterWorld(d)
			w.grow(rand.New(rand.NewPCG(1, 9)))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			w.join(ctx, fault{})
			w.group = &coordinator{slots: slots, session: session, members: map[string]*memberState{}}
			w.join(ctx, fault{})
			for len(w.ended()) == 0 {
				time.Sleep(time.Minute) // of the bubble's time
			}
			time.Sleep(time.Hour)
			errs := w.ended()
			w.group = &coordinator{slots: slots, session: session, members: map[string]*memberState{}}
			if !w.caughtUp() { // both have given up
				w.join(ctx, fault{})
			}
			w.finish(t, stop, "afterwards")
			if !slices.ContainsFunc(errs, func(err error) bool { return errors.Is(err, txnsink.ErrFenced) }) {
				t.Errorf("%s: nobody was told: %v", d, errs)
			}
			w.exactly(t, string(d))
		})
	}
}

// TestStandby: the one that waits takes over within the session timeout and a second, wherever the other dies or freezes.
func TestStandby(t *testing.T) {
	t.Parallel()
	for _, d := range deliveries {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			for _, kind := range []fault{{death: true}, {freeze: 3 * session}} {
				for n := 1; ; n += 5 {
					f := kind
					f.at = n
					hit := true
					synctest.Test(t, func(t *testing.T) {
						w := newClusterWorld(d)
						w.group.slots = 1
						var began, left time.Time
						w.change = func(c *checkpoint.Cluster) {
							c.Slots, c.Standby = 0, true
							if w.group.next > 0 { // the second
								c.Observe = func(o checkpoint.Observation) {
									if _, ok := o.(checkpoint.Recovered); ok && began.IsZero() {
										began = time.Now()
									}
								}
							}
						}
						ctx, stop := context.WithCancel(t.Context())
						defer stop()
						p := w.join(ctx, f)
						synctest.Wait() // it is a member, and runs
						left = time.Now()
						w.join(ctx, fault{})
						what := fmt.Sprintf("call %d, death %v, freeze %v", n, f.death, f.freeze)
						for _, err := range w.finish(t, stop, what) {
							if err != nil && (d != checkpoint.AtMostOnce || !missing(err)) {
								t.Errorf("%s: %v", what, err)
							}
						}
						w.judge(t, d, what)
						hit = p.calls >= n
						if p.hitAt.After(left) {
							left = p.hitAt
						}
						if hit && n > 1 && w.stopped.Sub(left) > settle && (began.IsZero() || began.Sub(left) > session+2*time.Second) {
							t.Errorf("%s: taken over after %v", what, began.Sub(left))
						}
					})
					if !hit {
						break
					}
				}
			}
		})
	}
}

// TestATableThatChangesWhileItsPartitionsMove: the rows of all partitions of a topic have a new column from some point on, and a wider one, and the
// first process fails, dies or freezes at every point, also between a definition and the rows that asked for it.
func TestATableThatChangesWhileItsPartitionsMove(t *testing.T) {
	t.Parallel()
	for _, d := range exactlyOnce {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			step := 5 // as in TestEveryCrashPointOfACluster
			if d != checkpoint.TwoPhase {
				step = 15
			}
			for i, kind := range []fault{{before: true}, {}, {before: true, death: true}, {death: true}, {freeze: 3 * session}} {
				for n := 1 + i; ; n += step {
					f := kind
					f.at = n
					hit := false
					synctest.Test(t, func(t *testing.T) {
						w, want := wideningWorld(d)
						ctx, stop := context.WithCancel(t.Context())
						defer stop()
						p := w.join(ctx, f)
						time.Sleep(session / 3) // of the bubble's time
						w.join(ctx, fault{})
						what := fmt.Sprintf("call %d, before %v, death %v, freeze %v", n, f.before, f.death, f.freeze)
						for _, err := range w.finish(t, stop, what) {
							if err != nil {
								t.Errorf("%s: %v", what, err)
							}
						}
						if got := w.database.Rows(schema.Name{Table: "thing"}); !slices.Equal(got, want) {
							t.Errorf("%s: the rows are %q, want %q", what, got, want)
						}
						hit = p.calls >= n
					})
					if !hit {
						break
					}
				}
			}
		})
	}
}

// wideningWorld has a table in a partition of each slot, of which rows come in three shapes, and the rows that it ends with.
func wideningWorld(d checkpoint.Delivery) (*clusterWorld, []string) {
	w := newClusterWorld(d)
	w.log.partitions = nil
	var want []string
	for id := range slots {
		for n, more := range []struct{ fields, values, row string }{
			{"", "", "NULL|NULL"},
			{`,{"type":"int16","optional":true,"field":"a"}`, `,"a":1`, "1|NULL"},
			{`,{"type":"int64","optional":true,"field":"a"},{"type":"string","optional":true,"field":"b"}`, `,"a":3000000000,"b":"x"`, "3000000000|x"},
		} {
			key := 10*id + n
			shape := `{"type":"struct","optional":true,"fields":[{"type":"int32","optional":false,"field":"id"}` + more.fields + `],"field":"%s"}`
			w.log.add(debezium.Partition{Topic: "s.d.thing", ID: int32(id)}, 0, fmt.Sprintf(`{"schema":{"type":"struct","fields":[`+shape+`,`+shape+`,{"type":"struct","fields":[],"field":"source"},{"type":"string","field":"op"}]},"payload":%s}`,
				"before", "after", rowAt(1+n, "thing", "c", "", fmt.Sprintf(`{"id":%d%s}`, key, more.values))))
			want = append(want, fmt.Sprintf("%d|%s", key, more.row))
		}
	}
	slices.Sort(want)
	w.change = func(c *checkpoint.Cluster) {
		open := c.Open
		c.Open = func(ctx context.Context, pipeline string, slot int) (checkpoint.Config, func() error, error) {
			config, done, err := open(ctx, pipeline, slot)
			config.Tables.Create = true
			return config, done, err
		}
	}
	return w, want
}

// TestATableThatAnotherChangesBetweenAPlanAndItsExecution: the plan is made anew, or what the other has added would be gone.
func TestATableThatAnotherChangesBetweenAPlanAndItsExecution(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, want := wideningWorld(checkpoint.TwoPhase)
		var once sync.Once
		widening := w.change
		w.change = func(c *checkpoint.Cluster) {
			widening(c)
			open := c.Open
			c.Open = func(ctx context.Context, pipeline string, slot int) (checkpoint.Config, func() error, error) {
				config, done, err := open(ctx, pipeline, slot)
				config.Sink = overtakenSink{config.Sink, &once}
				return config, done, err
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		w.join(ctx, fault{})
		if errs := w.finish(t, stop, "overtaken"); errs[0] != nil {
			t.Error(errs[0])
		}
		for i := range want {
			want[i] += "|NULL"
		}
		if got := w.database.Rows(schema.Name{Table: "thing"}); !slices.Equal(got, want) {
			t.Errorf("the rows are %q, want %q", got, want)
		}
	})
}

// overtakenSink adds a column to a table, as another process would, just before its first change is run.
type overtakenSink struct {
	txnsink.Sink
	once *sync.Once
}

func (s overtakenSink) Define(ctx context.Context, d txnsink.Definition) (err error) {
	if d.Of != nil && d.Of.Table != nil {
		s.once.Do(func() {
			to := *d.Of.Table
			to.Columns = append(slices.Clone(to.Columns), schema.Column{Name: "extra"})
			e := sqlgen.Evolution{Current: d.Of.Table, From: d.Of.Table, To: &to, Policy: schema.Evolve}
			for _, change := range (sinktest.Dialect{}).Evolve(e).Statements {
				err = errors.Join(err, s.Sink.Define(ctx, txnsink.Definition{DDL: []string{change.SQL}}))
			}
		})
	}
	return errors.Join(err, s.Sink.Define(ctx, d))
}

// TestShare checks whatever has been shared: nobody is given what another holds, and after everyone has let go of what it lost, all
// is shared evenly, with as few moves as that needs.
func TestShare(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		n := 1 + random.IntN(40)
		held := map[string][]int{}
		members := 1 + random.IntN(8)
		for s := range n {
			if m := random.IntN(members + 1); m < members {
				name := fmt.Sprint("m", m)
				held[name] = append(held[name], s)
			}
		}
		for m := range members {
			if name := fmt.Sprint("m", m); held[name] == nil {
				held[name] = []int{}
			}
		}
		first := checkpoint.Share(n, held)
		owner := map[int]string{}
		for name, list := range first {
			for _, s := range list {
				if owner[s] != "" {
					t.Fatalf("slot %d of %v is given twice: %v", s, held, first)
				}
				owner[s] = name
				for other, has := range held {
					if other != name && slices.Contains(has, s) {
						t.Fatalf("slot %d is %s's and is given to %s: %v, %v", s, other, name, held, first)
					}
				}
			}
		}
		// What was lost is let go of, and what was given is held.
		second := checkpoint.Share(n, first)
		total := 0
		for name, list := range second {
			total += len(list)
			if len(list) < n/members || len(list) > (n+members-1)/members {
				t.Fatalf("%s has %d of %d slots among %d members: %v, then %v", name, len(list), n, members, first, second)
			}
			for _, s := range first[name] {
				if !slices.Contains(list, s) {
					t.Fatalf("%s loses slot %d in the second round: %v, %v", name, s, first, second)
				}
			}
		}
		if total != n || len(second) != members {
			t.Fatalf("%d of %d slots are shared: %v", total, n, second)
		}
		if third := checkpoint.Share(n, second); !maps.EqualFunc(second, third, slices.Equal) {
			t.Fatalf("what is even moves: %v, %v", second, third)
		}
	}
}

func TestSlotOf(t *testing.T) {
	t.Parallel()
	seen := map[int]bool{}
	for id := range int32(12) {
		seen[checkpoint.SlotOf(debezium.Partition{Topic: "p.shop.orders", ID: id}, 16)] = true
	}
	if len(seen) != 12 {
		t.Errorf("12 partitions are in %d slots", len(seen))
	}
	// The slots of saved clusters depend on it.
	if got := checkpoint.SlotOf(debezium.Partition{Topic: "p.shop.orders", ID: 3}, 16); got != slotOfOrders {
		t.Errorf("got slot %d, want %d", got, slotOfOrders)
	}
}

const slotOfOrders = 5
