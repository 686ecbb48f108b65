package checkpoint

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// runEvents bounds the events of one job.
const runEvents = 4096

// advance hands the router what may be next. It reports false if nothing may.
func (a *assembler) advance(ctx context.Context) (bool, error) {
	if moved, err := a.passAlone(ctx); moved || err != nil {
		return moved, err
	}
	if len(a.pending) == 0 {
		return a.unannounced(ctx)
	}
	t := a.pending[0]
	switch {
	case a.wentBack(t):
		t.placed, t.changed = false, time.Now()
		return true, a.popPending(ctx, t.until, a.out)
	case t.over:
		a.told.Repeated++
		return true, a.pop(ctx, a.out)
	case t.ended && a.isWhole(t):
		if ok, err := a.isSettled(ctx, &a.start, (*stream).inTransaction); !ok {
			return false, err
		}
		a.told.Whole++
		return true, a.hand(ctx, t)
	case t.ended && a.isStale(t):
		a.told.Repeated++
		return true, a.hand(ctx, t)
	case t.ended && t.tail:
		if ok, err := a.isSettled(ctx, &t.settled, func(s *stream) bool { return s.isAfter(t) }); !ok {
			return false, err
		}
		a.Log.Info("applying the rest of a source's transaction: it began before what is read, or the connector restarted within it",
			"pipeline", a.Pipeline, "transaction", t.id, "events", t.events)
		a.told.Repeated++
		return true, a.hand(ctx, t)
	case t.cut:
		return a.endCut(ctx, t)
	}
	return a.await(ctx, t)
}

// wentBack says whether the connector has restarted since it sent what there is of t, and gone back to before it: what comes next the
// source has written before t. It sends t again.
func (a *assembler) wentBack(t *txn) bool {
	at := slices.IndexFunc(a.pending, func(n *txn) bool { return n != t && n.hasAt })
	return at >= 0 && a.pending[at].isBefore(t)
}

// isBefore says whether the source has surely written t before u. Where positions do not order transactions by themselves, as
// PostgreSQL's, the times must say so too.
func (t *txn) isBefore(u *txn) bool {
	c, ok := t.at.Compare(u.at)
	return t.hasAt && u.hasAt && ok && c < 0 && (t.at.Txn == "" || t.tsMs <= u.tsMs)
}

// inTransaction says whether the first event that waits is of a transaction.
func (s *stream) inTransaction() bool {
	m := s.first()
	return m != nil && m.txn != nil
}

// isAfter says whether the partition has gone on beyond t.
func (s *stream) isAfter(t *txn) bool { return s.newest != nil && s.newest != t && s.newest.placed }

// passAlone hands over what is of no transaction and at the head of its partition, and what waits for nothing.
func (a *assembler) passAlone(ctx context.Context) (moved bool, _ error) {
	for _, s := range a.order {
		for len(s.chunks) > 0 {
			c := s.chunks[0]
			n := s.leading(runEvents, func(m *label) bool { return s != a.markers && a.isAlone(m) })
			if n == 0 && c.from < len(c.labels) {
				break
			}
			if err := a.pass(ctx, s, n, a.out); err != nil {
				return moved, err
			}
			moved = true
		}
	}
	if len(a.pending) == 0 && a.markers != nil && len(a.markers.chunks) > 0 {
		return true, a.passMarkers(ctx, a.markers.tail, a.out)
	}
	return moved, nil
}

// pass hands over the first n events of the first chunk of s.
func (a *assembler) pass(ctx context.Context, s *stream, n int, out chan<- *job) error {
	j, err := a.take(ctx, s, n)
	if err != nil {
		return err
	}
	return send(ctx, out, j)
}

func (a *assembler) passMarkers(ctx context.Context, until int64, out chan<- *job) error {
	s := a.markers
	for len(s.chunks) > 0 && s.head < until {
		if err := a.pass(ctx, s, s.leading(until-s.head, func(*label) bool { return true }), out); err != nil {
			return err
		}
	}
	return nil
}

// isAlone says whether an event at the head of its partition may go on without its transaction.
func (a *assembler) isAlone(m *label) bool {
	if m.txn != nil {
		return m.txn.over || !m.txn.placed && a.isStale(m.txn)
	}
	if m.at == nil || len(a.pending) == 0 {
		return true
	}
	t := a.pending[0]
	if t.over {
		return true
	}
	c, ok := m.at.Compare(t.at)
	return t.hasAt && (!ok || c < 0)
}

// isStale says whether the source has written t before what was applied last. Its events are sent again, then.
func (a *assembler) isStale(t *txn) bool {
	if !a.begun || !t.hasAt || t.tsMs > a.frontTs {
		return false
	}
	c, ok := t.at.Compare(a.frontier)
	return ok && c <= 0
}

// isWhole says whether all of t's events are there that are read at all.
func (a *assembler) isWhole(t *txn) bool { return a.lacks(t) == "" }

// lacks says what of t's events is missing.
func (a *assembler) lacks(t *txn) string {
	var out []string
	for _, c := range t.counts {
		var n int64
		for i := range t.got {
			if t.got[i].source.Names(c.Collection) {
				n += t.got[i].n
			}
		}
		if n < c.Events && a.isRead(c.Collection, n) {
			out = append(out, fmt.Sprintf("%d of %d events of %s", c.Events-n, c.Events, c.Collection))
		}
	}
	return strings.Join(out, ", ")
}

// isRead says whether the events of a table are read, as far as its name tells and what has come of it.
func (a *assembler) isRead(collection string, n int64) bool {
	read, known := a.reads[collection]
	if known && (read || n == 0) {
		return read
	}
	switch {
	case n > 0:
		read = true
	case strings.Contains(collection, "LogicalDecodingMessageId@"): // PostgreSQL's messages are counted, and are no rows
	default:
		prefix := a.Whole.Topic[:strings.LastIndexByte(a.Whole.Topic, '.')+1]
		read = a.Whole.Reads == nil || a.Whole.Reads(prefix+topicPart(collection))
	}
	a.reads[collection] = read
	return read
}

// topicPart is a table's name as Debezium writes it in the name of a topic.
func topicPart(collection string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '.', r == '_', r == '-':
			return r
		}
		return '_'
	}, collection)
}

// isSettled says whether every partition was read to where it ended settleFor after the first call, or is further by itself.
func (a *assembler) isSettled(ctx context.Context, w *settle, isFurther func(*stream) bool) (bool, error) {
	switch {
	case w.done:
		return true, nil
	case w.since.IsZero():
		w.since = time.Now()
		return false, nil
	case w.marks == nil:
		if time.Since(w.since) < settleFor {
			return false, nil
		}
		ends, err := a.reader.Ends(ctx)
		if err != nil {
			return false, err
		}
		w.marks = ends
	}
	for p, mark := range w.marks {
		s, read := a.streams[p], a.from[p].Offset
		if s != nil {
			read = s.read
		}
		if read < mark && p.Topic != a.Whole.Topic && (s == nil || !isFurther(s)) {
			return false, nil
		}
	}
	w.done, w.marks = true, nil
	return true, nil
}

// endCut decides about a transaction that has no END though another one began. If the connector has not gone back it ended, and nothing
// tells so.
func (a *assembler) endCut(ctx context.Context, t *txn) (bool, error) {
	if ok, err := a.isSettled(ctx, &t.settled, func(s *stream) bool { return s.isAfter(t) }); !ok {
		return false, err
	}
	next := slices.ContainsFunc(a.pending, func(n *txn) bool { return n != t && n.hasAt })
	if !next && t.events > 0 && time.Since(t.changed) <= a.Whole.Wait {
		return false, nil
	}
	if t.events > 0 {
		a.Log.Warn("a source's transaction has no END, and the next one began: applying what there is of it",
			"pipeline", a.Pipeline, "transaction", t.id, "events", t.events)
		a.told.Unended++
		a.told.Whole++
	}
	return true, a.hand(ctx, t)
}

// await looks after a transaction that is not whole yet. While it holds nothing up it may take any time: the connector may be down, and
// send it again when it is back.
func (a *assembler) await(ctx context.Context, t *txn) (bool, error) {
	behind := len(a.pending) > 1 || slices.ContainsFunc(a.order, func(s *stream) bool { return s.newest != nil && s.newest != t && s.newest.waiting > 0 })
	if !behind {
		a.heldUp = time.Now()
	}
	if a.isFull {
		return true, a.split(ctx, t, fmt.Sprintf("%s, and the %d bytes of memory and %d bytes of disk for it are full", a.incomplete(t), a.Whole.Memory, a.Whole.Disk))
	}
	if time.Since(t.changed) <= a.Whole.Wait {
		return false, nil
	}
	mayStay := !a.UntilCaughtUp && (!t.ended || a.Whole.Broken == StopAtBroken)
	if mayStay && time.Since(a.heldUp) <= a.Whole.Wait {
		if a.warned != t {
			a.warned = t
			a.Log.Warn("a source's transaction is not whole yet", "pipeline", a.Pipeline, "transaction", t.id, "it", a.incomplete(t), "events", t.events)
		}
		return false, nil
	}
	return true, a.split(ctx, t, fmt.Sprintf("%s after %v without anything new of it", a.incomplete(t), a.Whole.Wait))
}

// incomplete says why t is not whole.
func (a *assembler) incomplete(t *txn) string {
	if t.ended {
		return "lacks " + a.lacks(t)
	}
	return "has no END"
}

// unannounced looks after events of transactions of which the transaction topic tells nothing.
func (a *assembler) unannounced(ctx context.Context) (bool, error) {
	for _, s := range a.order {
		m := s.first()
		if s == a.markers || m == nil || m.txn == nil {
			continue
		}
		t := m.txn
		if min(time.Since(t.changed), time.Since(a.heldUp)) <= a.Whole.Wait && !a.isFull {
			continue
		}
		what := fmt.Sprintf("has events in %v from offset %d on, and topic %s does not tell of it", s.partition, m.offset, a.Whole.Topic)
		a.place(t, 0)
		return true, a.split(ctx, t, what)
	}
	return false, nil
}

// split hands over what there is of the first transaction, or ends the run. Where nothing was applied yet, reading began within it.
func (a *assembler) split(ctx context.Context, t *txn, what string) error {
	switch {
	case !a.begun && !a.isFull:
		a.Log.Info("a source's transaction is not whole where reading begins", "pipeline", a.Pipeline, "transaction", t.id, "it", what)
	case a.Whole.Broken == StopAtBroken:
		return permanent(fmt.Errorf("the source's transaction %s %s: see whether a transform of the connector drops events or renames topics, and "+
			"that source.topics matches all of its tables; preserve.broken: split goes on with what there is, and then the target does not "+
			"show this transaction at once", t.id, what))
	default:
		a.Log.Warn("applying a source's transaction in parts", "pipeline", a.Pipeline, "transaction", t.id, "it", what)
	}
	a.isFull = false
	a.told.Split++
	t.split = !t.ended
	if a.open == t {
		a.open = nil
	}
	return a.hand(ctx, t)
}

// hand hands over what there is of the first transaction: its events in their order, with what comes before them in their partitions.
func (a *assembler) hand(ctx context.Context, t *txn) error {
	w := &whole{id: t.id, tsMs: t.tsMs, parts: make(chan *job, 1)}
	for _, h := range t.heads {
		w.heads = append(w.heads, h.event)
	}
	if err := send(ctx, a.out, &job{whole: w, came: t.came, done: a.done}); err != nil {
		return err
	}
	var list []*stream
	for _, s := range a.order {
		if p := t.parts[s]; p != nil && p.until > s.head {
			list = append(list, s)
		}
	}
	for len(list) > 0 {
		s, limit := nextOf(list, t)
		if err := a.handRun(ctx, s, t, limit, w.parts); err != nil {
			return err
		}
		if s.head >= t.parts[s].until {
			list = slices.DeleteFunc(list, func(o *stream) bool { return o == s })
		}
	}
	if t.hasAt {
		if c, ok := t.at.Compare(a.frontier); !a.begun || !ok || c > 0 {
			a.moveTo(t.at, t.tsMs)
		}
	}
	a.isFull = false
	if err := a.pop(ctx, w.parts); err != nil {
		return err
	}
	close(w.parts)
	return nil
}

// nextOf returns the partition with t's next event, and up to which number its events come before those of the others.
func nextOf(list []*stream, t *txn) (next *stream, limit int64) {
	least := int64(math.MaxInt64)
	limit = least
	for _, s := range list {
		order := s.first().orderIn(t)
		switch {
		case order < least:
			next, least, limit = s, order, least
		case order < limit:
			limit = order
		}
	}
	return next, limit
}

// orderIn is where an event comes among those of t: what is before them in their partition comes as soon as it can.
func (m *label) orderIn(t *txn) int64 {
	if m.txn != t {
		return 0
	}
	return m.order
}

// handRun hands over events of s up to number limit of t. What is sent again is left out.
func (a *assembler) handRun(ctx context.Context, s *stream, t *txn, limit int64, out chan<- *job) error {
	c := s.chunks[0]
	c.unpack()
	if c.from == len(c.labels) {
		return a.pass(ctx, s, 0, out)
	}
	dropped := func(m *label) bool { return a.isSentAgain(m.txn, t) }
	if again := c.labels[c.from].txn; dropped(&c.labels[c.from]) {
		n := s.leading(t.parts[s].until-s.head, func(m *label) bool { return m.txn == again })
		for i := range n {
			if m := &c.labels[c.from+i]; m.fresh {
				again.recounted(m, false)
			}
		}
		if err := a.drop(s, n, nil); err != nil {
			return err
		}
		again.recount(s)
		return nil
	}
	n := s.leading(min(runEvents, t.parts[s].until-s.head), func(m *label) bool { return m.orderIn(t) <= limit && !dropped(m) })
	return a.pass(ctx, s, n, out)
}

// isSentAgain says whether an event of u that is before one of t in its partition is sent again: the source has written u after t, so
// the connector has gone back since.
func (a *assembler) isSentAgain(u, t *txn) bool {
	return u != nil && u != t && !u.over && t.isBefore(u)
}

// pop is the end of the first transaction: it was handed over.
func (a *assembler) pop(ctx context.Context, out chan<- *job) error {
	t := a.pending[0]
	t.over, t.placed = true, false
	t.heads, t.got, t.parts, t.counts = nil, nil, nil, nil
	if !a.past[t.id] {
		a.remember(t.id)
	}
	if !t.split {
		delete(a.txns, t.id)
	}
	return a.popPending(ctx, t.until, out)
}

func (a *assembler) popPending(ctx context.Context, until int64, out chan<- *job) error {
	a.pending[0] = nil
	a.pending = a.pending[1:]
	if len(a.pending) > 0 {
		a.pending[0].changed = time.Now()
	}
	a.heldUp = time.Now()
	if a.markers == nil {
		return nil
	}
	return a.passMarkers(ctx, until, out)
}

// remember keeps a transaction's id in mind, to know it again.
func (a *assembler) remember(id string) {
	if len(a.pastIDs) < maxDone {
		a.pastIDs = append(a.pastIDs, id)
	} else {
		delete(a.past, a.pastIDs[a.pastAt])
		a.pastIDs[a.pastAt] = id
		a.pastAt = (a.pastAt + 1) % maxDone
	}
	a.past[id] = true
}

// hold has the reader pass over partitions that have gone far beyond the transaction that is waited for.
func (a *assembler) hold() {
	var t *txn
	stalled := false
	if len(a.pending) > 0 {
		t = a.pending[0]
		stalled = time.Since(t.changed) > stallFor
	}
	share := a.Whole.Memory / 4 / int64(max(1, len(a.order)))
	for _, s := range a.order {
		far := s.bytes > share && s.newest != nil && s.newest != t
		if s == a.markers {
			far = len(a.pending) > maxPending
		}
		if far = far && !stalled; far != s.held {
			s.held = far
			a.reader.Hold(s.partition, far)
		}
	}
}

// state is what is told.
func (a *assembler) state() SourceTransactions {
	now := a.told
	now.Split += a.torn.Load()
	now.Memory, now.Disk = a.memory, a.disk.size
	if t := a.oldest(); t != nil {
		now.Waiting, now.Began, now.Since, now.Behind = t.id, t.began, t.changed, max(0, len(a.pending)-1)
	}
	return now
}

// oldest returns the transaction that is waited for, or nil. Where the transaction topic tells of none it is one that has events.
func (a *assembler) oldest() *txn {
	if len(a.pending) > 0 {
		return a.pending[0]
	}
	for _, s := range a.order {
		if m := s.first(); s != a.markers && m != nil && m.txn != nil {
			return m.txn
		}
	}
	return nil
}

// tell tells what became of transactions, at most once a second. It says whether something is left to tell.
func (a *assembler) tell() (later bool) {
	now := a.state()
	if now == a.said {
		return false
	}
	if time.Since(a.toldAt) < time.Second {
		return true
	}
	a.said, a.toldAt = now, time.Now()
	a.Observe(now)
	return false
}
