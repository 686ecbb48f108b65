package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"replicator/debezium"
)

// Bounds of what waits for the rest of a source's transaction.
const (
	settleFor    = time.Second            // after which what was written before a record is visible, as a rule
	stallFor     = 5 * time.Second        // a transaction of which nothing comes for so long may need a partition that is held back
	assembleTick = 250 * time.Millisecond // how often waits are looked at
	maxPending   = 100_000                // transactions that are known and not applied
	maxHeads     = 256                    // tables and shapes of one transaction whose schema is seen to before its first row
	maxDone      = 100_000                // transactions that are recognised when the connector sends them again
)

// assembler stands between the reader and the router, and hands the router whole transactions of the source, in the order of its
// transaction topic. What waits in it is not read, as far as positions go: they move with what the router gets.
//
// An event belongs to the transaction that it names; of several with one place in it, the first in a partition counts. A transaction
// is whole when as many are there of each table as its END says. A connector that restarts goes back, and sends again what comes after:
// the source's positions tell. What is known of transactions that it had sent in part waits for that.
type assembler struct {
	*run
	reader Reader
	out    chan<- *job
	done   chan struct{} // closed: what comes out is decoded
	torn   *atomic.Int64

	streams map[debezium.Partition]*stream
	order   []*stream
	markers *stream // of the transaction topic; nil: nothing was read of it yet
	txns    map[string]*txn
	pending []*txn // in the order of the source
	open    *txn   // the last of pending, if its END is still to come
	past    map[string]bool
	pastIDs []string // of past, a ring
	pastAt  int

	frontier debezium.LogPosition // of the last transaction
	frontTs  int64
	begun    bool               // a transaction was applied, in this run or before: frontier is one
	start    settle             // the first transaction comes after the snapshot, in all partitions
	from     debezium.Positions // where reading began
	reads    map[string]bool    // collections whose topics are read

	came   time.Time // of the batch that is being read
	memory int64
	isFull bool // what was read last had no room
	disk   spill
	told   SourceTransactions
	said   SourceTransactions
	toldAt time.Time
	heldUp time.Time // since when something has waited for the first of pending
	warned *txn      // of which it was said that it waits
}

// txn is a source's transaction of which something waits.
type txn struct {
	id      string
	placed  bool // it is in pending
	ended   bool
	cut     bool // another one began before its END
	tail    bool // its END came without a BEGIN: the connector had restarted within it, or reading began there
	over    bool // it was handed over: what comes of it is there twice
	split   bool // it was handed over before it was whole: what comes of it until its END is the rest
	counts  []debezium.CollectionCount
	until   int64 // in the transaction topic: the number after its last marker
	events  int64
	waiting int64 // events in streams
	parts   map[*stream]*txnPart
	got     []tableEvents
	heads   []headOf
	at      debezium.LogPosition // of its last event
	hasAt   bool
	tsMs    int64
	began   time.Time // when something of it came first
	changed time.Time
	came    time.Time // as job.came, of the last of it
	settled settle
}

// txnPart is what a partition has of a transaction.
type txnPart struct {
	highest int64 // Event.Order
	until   int64 // the number after the last event that is not there twice
}

type tableEvents struct {
	source debezium.Source
	n      int64
}

type headOf struct {
	shape *debezium.Shape
	event *debezium.Event
}

// settle is a wait until everything is read that was written before it began.
type settle struct {
	since time.Time
	marks map[debezium.Partition]int64
	done  bool
}

func newAssembler(r *run, reader Reader, out chan<- *job, torn *atomic.Int64) *assembler {
	a := &assembler{
		run: r, reader: reader, out: out, done: make(chan struct{}), torn: torn,
		streams: map[debezium.Partition]*stream{}, txns: map[string]*txn{}, past: map[string]bool{}, reads: map[string]bool{}, from: r.last.Positions.Clone(),
		disk: spill{dir: r.Whole.Dir, limit: r.Whole.Disk},
	}
	close(a.done)
	for i := range r.last.Seen {
		if s := &r.last.Seen[i]; !a.begun || s.TsMs > a.frontTs {
			a.moveTo(s.LogPosition, s.TsMs)
		}
	}
	for i := range r.last.Seen { // of the log that is read now, the furthest
		s := &r.last.Seen[i]
		if c, ok := s.Compare(a.frontier); ok && c > 0 {
			a.moveTo(s.LogPosition, s.TsMs)
		}
	}
	return a
}

// moveTo notes that all of the source's log up to at was handed over.
func (a *assembler) moveTo(at debezium.LogPosition, tsMs int64) {
	at.Log, at.Txn = strings.Clone(at.Log), strings.Clone(at.Txn)
	a.frontier, a.frontTs, a.begun = at, max(a.frontTs, tsMs), true
}

// loop assembles until ctx ends.
func (a *assembler) loop(ctx context.Context, in <-chan *job) (err error) {
	defer func() {
		a.Observe(a.state())
		if cerr := a.disk.close(); cerr != nil {
			a.Log.Warn("removing what was spilled of source transactions", "pipeline", a.Pipeline, "error", cerr)
		}
	}()
	timer := time.NewTimer(idleWait)
	defer timer.Stop()
	for {
		for more := true; more; {
			if more, err = a.advance(ctx); err != nil {
				return err
			}
		}
		a.hold()
		later := a.tell()
		wait := idleWait
		if later || len(a.pending) > 0 || a.waits() {
			wait = assembleTick
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case j := <-in:
			if err := a.read(ctx, j); err != nil {
				return err
			}
		}
	}
}

// waits says whether an event waits.
func (a *assembler) waits() bool {
	return slices.ContainsFunc(a.order, func(s *stream) bool { return s != a.markers && s.first() != nil })
}

// read takes a batch in.
func (a *assembler) read(ctx context.Context, j *job) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-j.done:
	}
	if j.err != nil {
		return badRecord(j.err)
	}
	s, err := a.stream(j.batch.Partition)
	if err != nil {
		return err
	}
	a.came = j.came
	c := &chunk{batch: j.batch, came: j.came, events: j.events, labels: make([]label, len(j.events)), cost: int64(j.batch.Bytes) + eventCost*int64(len(j.events))}
	for i := range j.events {
		e := &j.events[i]
		c.labels[i].offset = e.Offset
		switch {
		case s == a.markers && e.Marker != nil:
			a.mark(e, s.tail+int64(i))
		case s != a.markers && e.Op.Row():
			if err := a.note(s, &c.labels[i], e, s.tail+int64(i)); err != nil {
				return err
			}
		}
	}
	s.add(c)
	if err := a.keep(c); !errors.Is(err, errSpillFull) {
		return err
	}
	a.isFull = true
	return nil
}

func (a *assembler) stream(p debezium.Partition) (*stream, error) {
	s := a.streams[p]
	if s != nil {
		return s, nil
	}
	s = &stream{partition: p}
	if p.Topic == a.Whole.Topic {
		if p.ID != 0 {
			return nil, permanent(fmt.Errorf("topic %s has several partitions, and the order of its records is that of the source's transactions: it must have one", p.Topic))
		}
		a.markers = s
	}
	a.streams[p] = s
	a.order = append(a.order, s)
	return s, nil
}

// note counts an event for its transaction. number is the event's in its stream.
func (a *assembler) note(s *stream, m *label, e *debezium.Event, number int64) error {
	if e.Txn == "" {
		return a.noteAlone(m, e)
	}
	t := a.txns[e.Txn]
	if t == nil {
		t = a.newTxn(e.Txn)
	}
	m.txn, m.order, t.came = t, e.Order, a.came
	t.waiting++
	s.newest = t
	if at, ok := e.Source.Position(); ok {
		if c, ok := at.Compare(t.at); !t.hasAt || ok && c > 0 {
			t.at, t.hasAt = at, true
		}
	}
	t.tsMs = max(t.tsMs, e.Source.TsMs)
	if t.over {
		return nil
	}
	p := t.parts[s]
	if p == nil {
		p = &txnPart{}
		t.parts[s] = p
	}
	if e.Order > 0 && e.Order <= p.highest {
		return nil // sent again
	}
	p.highest, p.until = e.Order, number+1
	m.table, m.fresh = t.count(e), true
	t.changed = time.Now()
	return nil
}

// noteAlone takes in an event that is of no transaction.
func (a *assembler) noteAlone(m *label, e *debezium.Event) error {
	switch e.Op {
	case debezium.Read:
	case debezium.Truncate: // MySQL's is a transaction of its own, and Debezium does not say which
		if at, ok := e.Source.Position(); ok {
			m.at = &at
		}
	default:
		if a.Whole.Broken == StopAtBroken {
			do := "set provide.transaction.metadata: true on the connector"
			if e.Flat {
				do = "it is flattened, and such a row never does; leave out the connector's transform ExtractNewRecordState"
			}
			return permanent(fmt.Errorf("record %v offset %d does not say which transaction of the source it is of: %s, or set source_transactions: ignore",
				e.Partition, e.Offset, do))
		}
		if a.told.Without == 0 {
			a.Log.Warn("rows do not say which transaction of the source they are of, and are applied as they come",
				"pipeline", a.Pipeline, "topic", e.Partition.Topic, "partition", e.Partition.ID, "offset", e.Offset)
		}
	}
	a.told.Without++
	return nil
}

func (a *assembler) newTxn(id string) *txn {
	if len(a.txns) > 2*maxPending {
		for id, t := range a.txns {
			if !t.placed && t.waiting == 0 {
				delete(a.txns, id)
			}
		}
	}
	id = strings.Clone(id) // not to hold on to the record
	now := time.Now()
	t := &txn{id: id, parts: map[*stream]*txnPart{}, began: now, changed: now, over: a.past[id]}
	a.txns[id] = t
	return t
}

// count adds an event to its table's, and returns which that is.
func (t *txn) count(e *debezium.Event) int32 {
	t.events++
	i := len(t.got) - 1
	same := func(s *debezium.Source) bool {
		return s.Table == e.Source.Table && s.Schema == e.Source.Schema && s.Database == e.Source.Database
	}
	if i < 0 || !same(&t.got[i].source) {
		i = slices.IndexFunc(t.got, func(g tableEvents) bool { return same(&g.source) })
	}
	if i < 0 {
		i = len(t.got)
		t.got = append(t.got, tableEvents{source: debezium.Source{
			Database: strings.Clone(e.Source.Database), Schema: strings.Clone(e.Source.Schema), Table: strings.Clone(e.Source.Table),
		}})
	}
	t.got[i].n++
	known := func(h headOf) bool { return h.shape == rowShape(e) && same(&h.event.Source) }
	if len(t.heads) < maxHeads && !slices.ContainsFunc(t.heads, known) {
		t.heads = append(t.heads, headOf{rowShape(e), e})
	}
	return int32(i)
}

// recount counts anew what s has of t, of which some was dropped: what was there twice is not any more.
func (t *txn) recount(s *stream) {
	p := t.parts[s]
	if p == nil {
		return
	}
	*p = txnPart{}
	number := s.head
	for _, c := range s.chunks {
		c.unpack()
		for i := c.from; i < len(c.labels); i++ {
			m := &c.labels[i]
			number++
			if m.txn != t {
				continue
			}
			fresh := m.order == 0 || m.order > p.highest
			if fresh {
				p.highest, p.until = m.order, number
			}
			if fresh != m.fresh {
				t.recounted(m, fresh)
			}
		}
		if c.onDisk {
			c.pack()
		}
	}
}

// recounted changes whether m is counted.
func (t *txn) recounted(m *label, fresh bool) {
	n := int64(1)
	if m.fresh {
		n = -1
	}
	m.fresh = fresh
	t.events += n
	t.got[m.table].n += n
}

// mark takes in a record of the transaction topic. number is its number in the stream.
func (a *assembler) mark(e *debezium.Event, number int64) {
	t := a.txns[e.Txn]
	if t == nil {
		t = a.newTxn(e.Txn)
	}
	t.changed, t.came = time.Now(), a.came
	if t.split && e.Marker.End { // of what was handed over before it was whole
		t.split = false
		return
	}
	if e.Marker.End {
		a.end(t, e.Marker, number)
		return
	}
	if t == a.open { // the connector restarted, and begins it anew
		t.until = number + 1
		return
	}
	if a.open != nil {
		a.open.cut = true
	}
	if t.placed { // likewise, and all of it comes again
		a.pending = slices.DeleteFunc(a.pending, func(p *txn) bool { return p == t })
	}
	a.place(t, number)
	a.open = t
}

func (a *assembler) end(t *txn, m *debezium.Marker, number int64) {
	switch {
	case t == a.open:
	case t.placed: // the connector restarted within it, and goes on from there
		at := slices.Index(a.pending, t)
		a.unplace(a.pending[at+1:])
		a.pending = a.pending[:at+1]
	default:
		if a.open != nil {
			a.open.cut = true
		}
		a.place(t, number)
		t.tail = true
	}
	a.open = nil
	t.ended, t.cut, t.counts, t.until = true, false, m.Collections, number+1
}

func (a *assembler) place(t *txn, number int64) {
	t.placed, t.ended, t.cut, t.tail = true, false, false, false
	t.until, t.counts, t.settled = number+1, nil, settle{}
	a.pending = append(a.pending, t)
}

// unplace takes transactions out of the order: the connector has gone back to before them, and sends their BEGIN again.
func (a *assembler) unplace(list []*txn) {
	for i, t := range list {
		t.placed, list[i] = false, nil
	}
}
