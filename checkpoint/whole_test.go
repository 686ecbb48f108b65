package checkpoint_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator/checkpoint"
	"replicator/schema"
	"replicator/txnsink/sinktest"
)

// Mutations of how transactions are kept whole that these tests must catch, tried by hand like those in protocol_test.go.
//
//	wentBack: never                                 TestAConnectorComesBackSlowly
//	isStale: never                                  TestWholeTransactionsSurviveManyCrashes
//	isSentAgain: never; no recount of what is left  TestAConnectorMayBeDown
//	advance: the start is not waited for            TestWholeTransactionsSurviveManyCrashes
//	pop: nothing is remembered; hold: never         TestATransactionThatIsSplitGoesOn
//	hand: the frontier stays                        TestATransactionTopicThatTellsNothing

// bankWorld is a world with a bank's log.
func bankWorld(l *memoryLog) *world {
	w := &world{log: l, database: sinktest.NewMemory(), store: &memoryStore{}}
	for _, name := range []schema.Name{checking, savings} {
		w.database.CreateTable(schema.Table{Name: name, Columns: []schema.Column{{Name: "id", NotNull: true}, {Name: "v"}}, PrimaryKey: []string{"id"}})
	}
	w.database.CreateTable(schema.Table{Name: entries, Columns: []schema.Column{{Name: "line"}}})
	return w
}

// preserving is how the tests keep transactions whole: with so little memory that most of what waits is on disk.
func preserving(t *testing.T) *checkpoint.WholeTransactions {
	return &checkpoint.WholeTransactions{
		Topic: transactionTopic.Topic, Wait: time.Minute, Broken: checkpoint.StopAtBroken, Memory: 8 << 10, Disk: 1 << 20, Dir: t.TempDir(),
	}
}

// watch sets a process up to keep transactions whole if w is not nil, and to tell h what is seen.
func watch(database *sinktest.Memory, h *history, whole *checkpoint.WholeTransactions, seed uint64, l *memoryLog) func(*checkpoint.Config) {
	return func(c *checkpoint.Config) {
		sink := c.Sink.(faultySink)
		sink.Sink = watchedSink{sink.Sink, database, h}
		source := c.Source.(faultySource)
		source.Source = jumbled{l, rand.New(rand.NewPCG(seed, 2))}
		c.Sink, c.Source, c.Workers, c.Whole = sink, source, 1, whole
	}
}

// TestEveryStateOfTheTargetIsOneOfTheSource runs a bank whose connector restarts, with partitions read in any order, and looks at
// the target after each commit.
func TestEveryStateOfTheTargetIsOneOfTheSource(t *testing.T) {
	t.Parallel()
	for _, preserve := range []bool{true, false} {
		t.Run(fmt.Sprintf("preserve=%v", preserve), func(t *testing.T) {
			t.Parallel()
			torn := 0
			for seed := range uint64(80) {
				synctest.Test(t, func(t *testing.T) {
					b := newBank(seed, 5+int(seed%20))
					l := b.send(int(seed % 4))
					w, h := bankWorld(l), &history{}
					var whole *checkpoint.WholeTransactions
					if preserve {
						whole = preserving(t)
					}
					d := exactlyOnce[seed%3]
					if _, err := w.start(t.Context(), d, fault{}, watch(w.database, h, whole, seed, l)); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					err := judge(b.states, h.seen)
					switch {
					case err != nil && preserve:
						t.Fatalf("seed %d, %s: %v", seed, d, err)
					case err != nil:
						torn++
					}
				})
			}
			if !preserve && torn == 0 {
				t.Error("without preserve every state is one of the source's too: this test can see nothing")
			}
			t.Logf("%d runs showed a state that the source did not have", torn)
		})
	}
}

// TestWholeTransactionsSurviveEveryCrash breaks every call of every seam of a process that keeps transactions whole, as
// TestEveryCrashPoint does.
func TestWholeTransactionsSurviveEveryCrash(t *testing.T) {
	t.Parallel()
	for _, d := range exactlyOnce {
		t.Run(string(d), func(t *testing.T) {
			t.Parallel()
			for _, kind := range []fault{{before: true}, {}, {before: true, death: true}, {death: true}} {
				runs := 0
				for n, done := 1, false; !done && !t.Failed(); n++ {
					f := kind
					f.at = n
					what := fmt.Sprintf("call %d, before %v, death %v", n, f.before, f.death)
					synctest.Test(t, func(t *testing.T) {
						b := newBank(7, 5)
						l := b.send(2)
						w, h := bankWorld(l), &history{}
						set := watch(w.database, h, preserving(t), 7, l)
						p, err := w.start(t.Context(), d, f, set)
						done = p.calls < n
						if f.death && errors.Is(err, deadError{}) {
							_, err = w.start(t.Context(), d, fault{}, set)
						}
						if err != nil {
							t.Fatalf("%s: %v", what, err)
						}
						if err := judge(b.states, h.seen); err != nil {
							t.Errorf("%s: %v", what, err)
						}
						if got := w.database.Prepared(); len(got) != 0 {
							t.Errorf("%s: in doubt: %v", what, got)
						}
					})
					runs++
				}
				t.Logf("%d runs", runs)
			}
		})
	}
}

// TestWholeTransactionsSurviveManyCrashes breaks several processes after each other, anywhere, while the connector restarts too.
func TestWholeTransactionsSurviveManyCrashes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(80) {
		rng := rand.New(rand.NewPCG(seed, 3))
		synctest.Test(t, func(t *testing.T) {
			b := newBank(seed, 10)
			l := b.send(1 + int(seed%3))
			w, h := bankWorld(l), &history{}
			for n := range 6 {
				f := fault{at: 1 + rng.IntN(80), before: rng.IntN(2) == 0, death: rng.IntN(3) > 0}
				if n == 5 {
					f = fault{}
				}
				_, err := w.start(t.Context(), exactlyOnce[seed%3], f, watch(w.database, h, preserving(t), seed+uint64(n), l))
				if err == nil {
					break
				}
				if !errors.Is(err, deadError{}) {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
			if err := judge(b.states, h.seen); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		})
	}
}

// TestJudge: the checker of what was seen finds what it is there for.
func TestJudge(t *testing.T) {
	t.Parallel()
	states := []string{"a: 1, 2", "a: 3, 2", "a: 3, 4", "a: 1, 2", "a: 5, 6"}
	for name, tc := range map[string]struct {
		seen []string
		want string
	}{
		"all":                {states, ""},
		"some":               {[]string{"a: 1, 2", "a: 3, 4", "a: 5, 6"}, ""},
		"a state twice":      {[]string{"a: 3, 2", "a: 1, 2", "a: 5, 6"}, ""},
		"part of a snapshot": {[]string{"a: ", "a: 2", "a: 1, 2", "a: 5, 6"}, ""},
		"half a transaction": {[]string{"a: 1, 2", "a: 1, 4", "a: 5, 6"}, "never had"},
		"half at first":      {[]string{"a: 3, 4, 1", "a: 5, 6"}, "never had"},
		"back":               {[]string{"a: 3, 4", "a: 3, 2", "a: 5, 6"}, "state 1 of the source after state 2"},
		"no end":             {[]string{"a: 1, 2", "a: 3, 4"}, "not the last"},
		"nothing":            {nil, "not the last"},
	} {
		err := judge(states, tc.seen)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
	}
}
