package checkpoint_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"sync"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/txnsink"
)

// memoryStore is a Store that outlives the processes that use it.
type memoryStore struct {
	mu    sync.Mutex
	epoch int64
	saved []checkpoint.Checkpoint
	parts map[logged][]byte
}

// logged names a part of the log.
type logged struct {
	txnsink.ID
	part int
}

func (s *memoryStore) Append(_ context.Context, id txnsink.ID, part int, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parts == nil {
		s.parts = map[logged][]byte{}
	}
	s.parts[logged{id, part}] = slices.Clone(body)
	return nil
}

func (s *memoryStore) Read(_ context.Context, id txnsink.ID, part int) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	body, found := s.parts[logged{id, part}]
	if !found {
		return nil, checkpoint.ErrNotFound
	}
	return body, nil
}

func (s *memoryStore) Prune(_ context.Context, _ string, epoch, cp int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.parts, func(k logged, _ []byte) bool {
		return k.Epoch < epoch || k.Epoch == epoch && k.Checkpoint <= cp
	})
	return nil
}

func (s *memoryStore) Acquire(_ context.Context, pipeline string) (checkpoint.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch++
	c := checkpoint.Checkpoint{Pipeline: pipeline}
	if n := len(s.saved); n > 0 {
		c = s.saved[n-1]
		c.Positions = c.Positions.Clone()
	}
	c.Epoch = s.epoch
	return c, nil
}

func (s *memoryStore) Save(_ context.Context, c checkpoint.Checkpoint, retain int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Epoch != s.epoch {
		return fmt.Errorf("save checkpoint %d: %w", c.ID, txnsink.ErrFenced)
	}
	if n := len(s.saved); n > 0 && s.saved[n-1].ID >= c.ID {
		return fmt.Errorf("checkpoint %d after %d", c.ID, s.saved[n-1].ID)
	}
	c.Positions = c.Positions.Clone()
	s.saved = append(s.saved, c)
	for i := 0; len(s.saved)-i > retain && i < len(s.saved); i++ {
		if !s.saved[i].Savepoint {
			s.saved = slices.Delete(s.saved, i, i+1)
			i--
		}
	}
	return nil
}

func (s *memoryStore) List(context.Context, string) ([]checkpoint.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.saved), nil
}

func (s *memoryStore) Load(_ context.Context, _ string, id int64) (checkpoint.Checkpoint, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.saved {
		if c.ID == id {
			return c, nil
		}
	}
	return checkpoint.Checkpoint{}, checkpoint.ErrNotFound
}

func (s *memoryStore) Forget(_ context.Context, _ string, id int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.saved)
	s.saved = slices.DeleteFunc(s.saved, func(c checkpoint.Checkpoint) bool { return c.ID == id })
	if len(s.saved) == n {
		return checkpoint.ErrNotFound
	}
	return nil
}

func (s *memoryStore) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.saved)
}

func (s *memoryStore) Close() error { return nil }

// memoryLog is a Source: a fixed log of partitions whose batches end where the log says.
type memoryLog struct {
	partitions map[debezium.Partition][]debezium.Batch
	turns      *rand.Rand // whose turn it is; nil: one after the other
	mu         sync.Mutex // of history, which may grow while processes run
	history    []debezium.Record
	late       bool // a schema change is visible when a row that follows it is
	came       int  // the last position of a row that was read
}

// add appends a batch of values to a partition; gap is how many offsets after them hold nothing, as control
// records do.
func (l *memoryLog) add(p debezium.Partition, gap int64, values ...string) {
	if l.partitions == nil {
		l.partitions = map[debezium.Partition][]debezium.Batch{}
	}
	batches := l.partitions[p]
	var next int64
	if n := len(batches); n > 0 {
		next = batches[n-1].Next
	}
	b := debezium.Batch{Partition: p}
	for _, v := range values {
		r := debezium.Record{Partition: p, Offset: next}
		if v != "" {
			r.Value = []byte(v)
		}
		b.Records = append(b.Records, r)
		b.Bytes += len(v)
		next++
	}
	b.Next = next + gap
	l.partitions[p] = append(batches, b)
}

func (l *memoryLog) Open(_ context.Context, from debezium.Positions) (checkpoint.Reader, error) {
	r := &memoryReader{log: l, at: debezium.Positions{}, held: map[debezium.Partition]bool{}, freed: make(chan struct{})}
	for p := range l.partitions {
		r.at[p] = debezium.Position{Offset: from[p].Offset, TopicID: "t"}
		r.order = append(r.order, p)
	}
	slices.SortFunc(r.order, func(a, b debezium.Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.ID, b.ID))
	})
	r.start = r.at.Clone()
	return r, nil
}

func (l *memoryLog) History(_ context.Context, _ string, from int64) ([]debezium.Record, int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from = max(from, 0)
	end := l.visible()
	if from >= end {
		return nil, from, nil
	}
	return l.history[from:end], end, nil
}

// shown is where the schema-change topic ends.
func (l *memoryLog) shown() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.visible()
}

// visible is the same; l.mu is held.
func (l *memoryLog) visible() int64 {
	n := 0
	for n < len(l.history) && (!l.late || positionIn(l.history[n].Value) <= l.came) {
		n++
	}
	return int64(n)
}

// see notes that the rows of a batch are visible, and so the schema changes before them.
func (l *memoryLog) see(b *debezium.Batch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.late {
		return
	}
	for _, r := range b.Records {
		l.came = max(l.came, positionIn(r.Value))
	}
}

var position = regexp.MustCompile(`"pos":(\d+)`)

// positionIn is the source's position in a record's value; 0: it has none.
func positionIn(value []byte) int {
	m := position.FindSubmatch(value)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(string(m[1]))
	if err != nil {
		panic(err)
	}
	return n
}

type memoryReader struct {
	log       *memoryLog
	start, at debezium.Positions
	order     []debezium.Partition
	turn      int

	mu    sync.Mutex
	held  map[debezium.Partition]bool
	freed chan struct{} // closed when a partition is held no more
}

func (r *memoryReader) Hold(p debezium.Partition, hold bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[p] = hold
	if !hold {
		close(r.freed)
		r.freed = make(chan struct{})
	}
}

func (r *memoryReader) EndOf(context.Context, string) (int64, error) {
	return r.log.shown(), nil
}

func (r *memoryReader) Ends(context.Context) (map[debezium.Partition]int64, error) {
	return r.End(), nil
}

func (r *memoryReader) Start() debezium.Positions { return r.start }

func (r *memoryReader) End() map[debezium.Partition]int64 {
	r.mu.Lock() // a log may grow
	defer r.mu.Unlock()
	out := map[debezium.Partition]int64{}
	for p, bs := range r.log.partitions {
		out[p] = bs[len(bs)-1].Next
	}
	return out
}

func (r *memoryReader) Next(ctx context.Context) (debezium.Batch, error) {
	for {
		r.mu.Lock()
		b, ok := r.next()
		freed := r.freed
		r.mu.Unlock()
		if ok {
			r.log.see(&b)
			return b, nil
		}
		select {
		case <-ctx.Done():
			return debezium.Batch{}, ctx.Err()
		case <-freed:
		}
	}
}

func (r *memoryReader) next() (debezium.Batch, bool) {
	if r.log.turns != nil && len(r.order) > 0 {
		r.turn = r.log.turns.IntN(len(r.order))
	}
	for range r.order {
		p := r.order[r.turn%len(r.order)]
		r.turn++
		if r.held[p] {
			continue
		}
		batches := r.log.partitions[p]
		for _, b := range batches {
			if at := r.at[p].Offset; b.Next > at {
				for len(b.Records) > 0 && b.Records[0].Offset < at {
					b.Records = b.Records[1:]
				}
				b.End, b.TopicID = batches[len(batches)-1].Next, "t"
				r.at[p] = debezium.Position{Offset: b.Next, TopicID: "t"}
				return b, true
			}
		}
	}
	return debezium.Batch{}, false
}

func (r *memoryReader) Close() error { return nil }
