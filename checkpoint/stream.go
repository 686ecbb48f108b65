package checkpoint

import (
	"context"
	"encoding/binary"
	"slices"
	"time"

	"replicator/debezium"
)

// eventCost is about what an event takes in memory beside its record's bytes.
const eventCost = 1 << 10

// stream is what was read of one partition and is not yet on its way to the router. Events in it have numbers, which grow by one
// from the first that was read in this run.
type stream struct {
	partition debezium.Partition
	chunks    []*chunk
	head      int64 // the number of the first event
	tail      int64 // of the next one to be read
	read      int64 // offset after what was read
	end       int64 // the last stable offset, as last seen
	bytes     int64 // of chunks, wherever they are
	held      bool  // the reader passes it over
	newest    *txn  // of the last event that has one
}

// chunk is a batch, in memory or on disk.
type chunk struct {
	batch   debezium.Batch // on disk: without its records
	came    time.Time      // as job.came
	events  []debezium.Event
	labels  []label // one for each event; nil while packed holds them
	packed  *packed // on disk, as long as nothing looks at them
	from    int     // how many of them are gone
	cost    int64
	onDisk  bool
	extent  extent
	counted int64 // of cost, what is in memory
}

// label is what must be known of an event while it waits.
type label struct {
	offset int64
	order  int64
	txn    *txn                  // nil: it is of none
	table  int32                 // in txn.got
	fresh  bool                  // it is counted: not there twice
	at     *debezium.LogPosition // of an event that is of none and has its place among the transactions
}

// packed is labels that differ in their numbers only, which take a few bytes each. A transaction of the source may have tens of millions.
type packed struct {
	first  label
	deltas []byte // of offset and order, from one label to the next
}

// pack packs the labels, if they are of one transaction and table.
func (c *chunk) pack() {
	if len(c.labels) == 0 {
		return
	}
	p := &packed{first: c.labels[0]}
	last := p.first
	for _, m := range c.labels {
		if m.txn != last.txn || m.table != last.table || m.fresh != last.fresh || m.at != nil {
			return
		}
		p.deltas = binary.AppendVarint(p.deltas, m.offset-last.offset)
		p.deltas = binary.AppendVarint(p.deltas, m.order-last.order)
		last = m
	}
	p.deltas = slices.Clip(p.deltas)
	c.labels, c.packed = nil, p
}

// unpack makes the labels what they were.
func (c *chunk) unpack() {
	if c.packed == nil {
		return
	}
	m := c.packed.first
	for rest := c.packed.deltas; len(rest) > 0; {
		offset, n := binary.Varint(rest)
		order, k := binary.Varint(rest[n:])
		rest = rest[n+k:]
		m.offset += offset
		m.order += order
		c.labels = append(c.labels, m)
	}
	c.packed = nil
}

// add appends a batch.
func (s *stream) add(c *chunk) {
	s.chunks = append(s.chunks, c)
	s.tail += int64(len(c.labels))
	s.read, s.end = c.batch.Next, c.batch.End
	s.bytes += c.cost
}

// first returns the first event's label, or nil if no event waits.
func (s *stream) first() *label {
	for _, c := range s.chunks {
		c.unpack()
		if c.from < len(c.labels) {
			return &c.labels[c.from]
		}
	}
	return nil
}

// leading counts the events at the head of the first chunk, up to most, for which is holds.
func (s *stream) leading(most int64, is func(*label) bool) int {
	c := s.chunks[0]
	c.unpack()
	n := 0
	for int64(n) < most && c.from+n < len(c.labels) && is(&c.labels[c.from+n]) {
		n++
	}
	return n
}

// take removes the first n events of the first chunk, and the chunk with its last. It returns them as a job, whose end is the
// partition's position after them.
func (a *assembler) take(ctx context.Context, s *stream, n int) (*job, error) {
	c := s.chunks[0]
	if err := a.load(ctx, s, c); err != nil {
		return nil, err
	}
	b := c.batch
	b.End = s.end
	j := &job{batch: b, came: c.came, done: a.done}
	if n > 0 {
		j.batch.Records, j.events = b.Records[c.from:c.from+n], c.events[c.from:c.from+n]
	} else {
		j.batch.Records = nil
	}
	j.batch.Bytes = 0
	for i := range j.events {
		j.batch.Bytes += j.events[i].Bytes
	}
	return j, a.drop(s, n, j)
}

// drop moves s over n events of its first chunk; j, if it is not nil, then ends there.
func (a *assembler) drop(s *stream, n int, j *job) error {
	c := s.chunks[0]
	c.unpack()
	for i := range n {
		if t := c.labels[c.from+i].txn; t != nil {
			t.waiting--
		}
	}
	c.from += n
	s.head += int64(n)
	if c.from < len(c.labels) {
		if j != nil {
			j.batch.Next = c.labels[c.from].offset
		}
		return nil
	}
	s.chunks[0] = nil
	s.chunks = s.chunks[1:]
	s.bytes -= c.cost
	a.memory -= c.counted
	if c.onDisk {
		return a.disk.free()
	}
	return nil
}

// keep puts a chunk on disk if memory is full.
func (a *assembler) keep(c *chunk) error {
	if a.memory+c.cost <= a.Whole.Memory || len(c.events) == 0 {
		c.counted = c.cost
		a.memory += c.cost
		return nil
	}
	extent, err := a.disk.put(c.batch.Records)
	if err != nil {
		c.counted = c.cost
		a.memory += c.cost
		return err
	}
	c.onDisk, c.extent = true, extent
	c.batch.Records, c.events = nil, nil
	c.pack()
	return nil
}

// load brings a chunk back from disk.
func (a *assembler) load(ctx context.Context, s *stream, c *chunk) error {
	if !c.onDisk {
		return nil
	}
	records, err := a.disk.get(c.extent, s.partition)
	if err != nil {
		return err
	}
	c.batch.Records = records
	if c.events, err = a.Decoder.DecodeBatchContext(ctx, &c.batch); err != nil {
		return err
	}
	c.onDisk, c.counted = false, c.cost
	a.memory += c.cost
	return a.disk.free()
}
