// Package storetest is what every store of checkpoints must do, as a test suite.
package storetest

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/txnsink"
)

// Open opens the same store once more, as another process would.
type Open func(t *testing.T) checkpoint.Store

// Run tries a kind of store. newStore makes an empty one.
func Run(t *testing.T, newStore func(t *testing.T) Open) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, open Open)
	}{
		{"FirstAcquireFindsNothing", firstAcquire},
		{"AcquireReturnsWhatWasSavedLast", acquireLast},
		{"EpochsGrow", epochsGrow},
		{"FencedProcessSavesNothing", fenced},
		{"UnknownPipelineSavesNothing", unknown},
		{"SaveGoesForwardOnly", forwardOnly},
		{"PruningKeepsTheLastAndSavepoints", pruning},
		{"LoadFindsOneOrSaysThatThereIsNone", load},
		{"ForgetRemovesAnyButTheLast", forget},
		{"PipelinesDoNotSeeEachOther", pipelines},
		{"ProcessesThatAcquireAtOnceGetDistinctEpochs", acquireAtOnce},
		{"OfProcessesThatSaveAtOnceTheLatestWins", saveAtOnce},
		{"CancelledCallFails", cancelled},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, newStore(t))
		})
	}
}

const pipeline = "shop.orders_1-a"

// full returns a checkpoint that uses every field.
func full(epoch, id int64) checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Pipeline: pipeline, Epoch: epoch, ID: id, Rows: id * 10,
		Created: time.Date(2026, 1, 2, 3, 4, 5, 678_901_000, time.UTC),
		Positions: debezium.Positions{
			{Topic: "shop.shop.orders", ID: 0}:      {Offset: id, TopicID: "0123456789abcdef0123456789abcdef"},
			{Topic: "shop.shop.orders", ID: 1}:      {Offset: math.MaxInt64},
			{Topic: `odd "topic"' \ { ä 😀`, ID: 12}: {Offset: 0},
		},
		Txns: []txnsink.ID{
			{Pipeline: pipeline, Epoch: epoch, Checkpoint: id, Worker: 0},
			{Pipeline: pipeline, Epoch: epoch, Checkpoint: id, Worker: 1},
		},
		Seen: []checkpoint.Seen{{
			Source: "shop", Database: "shop", Table: `odd "table"' \ ä 😀`, Topic: "shop.shop.orders", Partition: 1,
			LogPosition: debezium.LogPosition{Log: "binlog", At: [4]uint64{1, math.MaxUint64}},
			Digests:     []uint64{math.MaxUint64}, Count: 1, Cursor: 1,
		}},
	}
}

func acquire(t *testing.T, s checkpoint.Store, name string) checkpoint.Checkpoint {
	t.Helper()
	c, err := s.Acquire(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func save(t *testing.T, s checkpoint.Store, c checkpoint.Checkpoint, retain int) {
	t.Helper()
	if err := s.Save(t.Context(), c, retain); err != nil {
		t.Fatal(err)
	}
}

func listed(t *testing.T, s checkpoint.Store, name string) []checkpoint.Checkpoint {
	t.Helper()
	out, err := s.List(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func ids(list []checkpoint.Checkpoint) []int64 {
	var out []int64
	for _, c := range list {
		out = append(out, c.ID)
	}
	return out
}

func firstAcquire(t *testing.T, open Open) {
	s := open(t)
	if got, want := acquire(t, s, pipeline), (checkpoint.Checkpoint{Pipeline: pipeline, Epoch: 1}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := listed(t, s, pipeline); len(got) != 0 {
		t.Errorf("listed %+v", got)
	}
}

func acquireLast(t *testing.T, open Open) {
	s := open(t)
	epoch := acquire(t, s, pipeline).Epoch
	save(t, s, full(epoch, 1), 10)
	save(t, s, full(epoch, 12), 10)
	if got, want := listed(t, open(t), pipeline), []checkpoint.Checkpoint{full(epoch, 1), full(epoch, 12)}; !reflect.DeepEqual(got, want) {
		t.Errorf("listed %+v, want %+v", got, want)
	}
	want := full(epoch, 12)
	want.Epoch = epoch + 1
	want.Txns = full(epoch, 12).Txns // of the epoch that prepared them
	if got := acquire(t, open(t), pipeline); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func epochsGrow(t *testing.T, open Open) {
	last := int64(0)
	for range 3 {
		epoch := acquire(t, open(t), pipeline).Epoch
		if epoch <= last {
			t.Fatalf("epoch %d after %d", epoch, last)
		}
		last = epoch
	}
}

func fenced(t *testing.T, open Open) {
	old, next := open(t), open(t)
	epoch := acquire(t, old, pipeline).Epoch
	save(t, old, full(epoch, 1), 10)
	later := acquire(t, next, pipeline).Epoch
	for range 2 {
		if err := old.Save(t.Context(), full(epoch, 2), 10); !errors.Is(err, txnsink.ErrFenced) || !txnsink.Permanent(err) {
			t.Fatalf("got %v, want ErrFenced", err)
		}
	}
	if got, want := listed(t, next, pipeline), []checkpoint.Checkpoint{full(epoch, 1)}; !reflect.DeepEqual(got, want) {
		t.Errorf("listed %+v, want %+v", got, want)
	}
	save(t, next, full(later, 2), 10)
}

func unknown(t *testing.T, open Open) {
	s := open(t)
	if err := s.Save(t.Context(), full(1, 1), 10); !errors.Is(err, txnsink.ErrFenced) {
		t.Errorf("got %v, want ErrFenced", err)
	}
	if got := listed(t, s, pipeline); len(got) != 0 {
		t.Errorf("listed %+v", got)
	}
}

func forwardOnly(t *testing.T, open Open) {
	s := open(t)
	epoch := acquire(t, s, pipeline).Epoch
	save(t, s, full(epoch, 5), 10)
	for _, id := range []int64{5, 4} {
		if err := s.Save(t.Context(), full(epoch, id), 10); err == nil || errors.Is(err, txnsink.ErrFenced) {
			t.Errorf("checkpoint %d after 5: got %v", id, err)
		}
	}
	if got, want := listed(t, s, pipeline), []checkpoint.Checkpoint{full(epoch, 5)}; !reflect.DeepEqual(got, want) {
		t.Errorf("listed %+v, want %+v", got, want)
	}
}

func pruning(t *testing.T, open Open) {
	s := open(t)
	epoch := acquire(t, s, pipeline).Epoch
	for id := int64(1); id <= 12; id++ {
		c := full(epoch, id)
		c.Savepoint = id == 2 || id == 9
		save(t, s, c, 3)
	}
	if got, want := ids(listed(t, s, pipeline)), []int64{2, 9, 10, 11, 12}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	save(t, s, full(epoch, 13), 1)
	if got, want := ids(listed(t, s, pipeline)), []int64{2, 9, 13}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
}

func load(t *testing.T, open Open) {
	s := open(t)
	epoch := acquire(t, s, pipeline).Epoch
	save(t, s, full(epoch, 1), 10)
	save(t, s, full(epoch, 2), 10)
	got, err := s.Load(t.Context(), pipeline, 1)
	if err != nil {
		t.Fatal(err)
	}
	if want := full(epoch, 1); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, id := range []int64{0, 3, math.MaxInt64} {
		if _, err := s.Load(t.Context(), pipeline, id); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("load %d: got %v, want ErrNotFound", id, err)
		}
	}
}

func forget(t *testing.T, open Open) {
	s := open(t)
	epoch := acquire(t, s, pipeline).Epoch
	for id := int64(1); id <= 4; id++ {
		c := full(epoch, id)
		c.Savepoint = id == 2
		save(t, s, c, 10)
	}
	for _, id := range []int64{1, 2} {
		if err := s.Forget(t.Context(), pipeline, id); err != nil {
			t.Error(err)
		}
	}
	for _, id := range []int64{1, 77} {
		if err := s.Forget(t.Context(), pipeline, id); !errors.Is(err, checkpoint.ErrNotFound) {
			t.Errorf("forget %d: got %v, want ErrNotFound", id, err)
		}
	}
	if err := s.Forget(t.Context(), pipeline, 4); err == nil || errors.Is(err, checkpoint.ErrNotFound) {
		t.Errorf("forget the last one: got %v", err)
	}
	if got, want := ids(listed(t, open(t), pipeline)), []int64{3, 4}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	save(t, s, full(epoch, 5), 10)
}

func pipelines(t *testing.T, open Open) {
	s := open(t)
	one := acquire(t, s, pipeline).Epoch
	save(t, s, full(one, 7), 1)
	acquire(t, s, "other")
	acquire(t, s, "other")
	other := full(3, 1)
	other.Pipeline = "other"
	other.Epoch = acquire(t, s, "other").Epoch
	save(t, s, other, 1)
	save(t, s, full(one, 8), 1)
	if got, want := ids(listed(t, s, pipeline)), []int64{8}; !slices.Equal(got, want) {
		t.Errorf("kept %v, want %v", got, want)
	}
	if got, want := listed(t, s, "other"), []checkpoint.Checkpoint{other}; !reflect.DeepEqual(got, want) {
		t.Errorf("listed %+v, want %+v", got, want)
	}
}

// atOnce runs do n times at the same time and returns its answers.
func atOnce[T any](n int, do func(i int) T) []T {
	out := make([]T, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { out[i] = do(i) })
	}
	wg.Wait()
	return out
}

func acquireAtOnce(t *testing.T, open Open) {
	const n = 4
	stores := make([]checkpoint.Store, n)
	for i := range stores {
		stores[i] = open(t)
	}
	epochs := atOnce(n, func(i int) int64 {
		c, err := stores[i].Acquire(t.Context(), pipeline)
		if err != nil {
			t.Error(err)
		}
		return c.Epoch
	})
	slices.Sort(epochs)
	if want := []int64{1, 2, 3, 4}; !slices.Equal(epochs, want) {
		t.Errorf("got epochs %v, want %v", epochs, want)
	}
}

func saveAtOnce(t *testing.T, open Open) {
	const n = 3
	stores, epochs := make([]checkpoint.Store, n), make([]int64, n)
	for i := range stores {
		stores[i] = open(t)
		epochs[i] = acquire(t, stores[i], pipeline).Epoch
	}
	errs := atOnce(n, func(i int) error { return stores[i].Save(t.Context(), full(epochs[i], 1), 10) })
	for i, err := range errs {
		if latest := i == n-1; latest && err != nil || !latest && !errors.Is(err, txnsink.ErrFenced) {
			t.Errorf("epoch %d: got %v", epochs[i], err)
		}
	}
	if got, want := listed(t, stores[0], pipeline), []checkpoint.Checkpoint{full(epochs[n-1], 1)}; !reflect.DeepEqual(got, want) {
		t.Errorf("listed %+v, want %+v", got, want)
	}
}

func cancelled(t *testing.T, open Open) {
	s := open(t)
	epoch := acquire(t, s, pipeline).Epoch
	ctx, cancel := contextCancelled(t)
	defer cancel()
	if err := s.Save(ctx, full(epoch, 1), 10); err == nil {
		t.Error("a cancelled save succeeded")
	}
	if _, err := s.Acquire(ctx, pipeline); err == nil {
		t.Error("a cancelled acquire succeeded")
	}
	save(t, s, full(epoch, 2), 10)
}

func contextCancelled(t *testing.T) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx, cancel
}
