package checkpoint

import (
	"context"
	"time"

	"replicator/debezium"
)

// route hands a batch's row events to their lanes. It reports false if the partition is held from one of them on.
func (r *router) route(ctx context.Context, j *job) (whole bool, _ error) {
	items := make([][]item, len(r.lanes))
	for i := j.from; i < len(j.events); i++ {
		if hold, err := r.routeEvent(ctx, j, i, items); err != nil || hold {
			return false, err
		}
	}
	r.bytes += int64(j.batch.Bytes)
	r.sinceFlushLen += int64(j.batch.Bytes)
	flush := !r.gather && (r.sinceFlush >= min(flushRows, int64(r.Rows)) || r.sinceFlushLen >= flushBytes) && !r.halfMoved(time.Now())
	return true, r.sendItems(ctx, items, flush)
}

// routeEvent adds event i of j to the items of its lane, or a letter in its place, if it is to be applied at all. It reports true if the
// partition is held from that event on.
func (r *router) routeEvent(ctx context.Context, j *job, i int, items [][]item) (hold bool, _ error) {
	e := &j.events[i]
	switch bad := j.bad[i]; {
	case bad != nil:
		return false, r.routeUnread(ctx, &j.batch.Records[i], bad, items)
	case !e.Op.Row():
		r.progress.Skipped++
		return false, nil
	case r.tables.skips(e):
		r.noteHalf(e)
		return false, nil
	case !r.tables.ready(e):
		if hold, err := r.makeReady(ctx, j, i, items); err != nil || hold {
			return hold, err
		}
	}
	name := tableOf(e)
	en := r.tables.entry(name)
	n, as, ok := r.place.of(en.target, e)
	if !ok { // before the event is noted as seen: it comes after the barrier
		if err := r.part(ctx, items, j, e); err != nil {
			return false, err
		}
		n, as, _ = r.place.of(en.target, e)
	}
	if r.repeats != nil && r.repeats.of(e) {
		r.progress.Repeated++
		return false, nil
	}
	r.noteHalf(e)
	if en.target == nil || applied(r.ahead, en.target, e) { // invariant 10
		return false, nil
	}
	it, err := r.passed(ctx, j, i, as) // a letter takes the record's lane: invariants 10 and 16
	if err != nil {
		return false, err
	}
	items[n] = append(items[n], it)
	r.tally()
	r.count(name, en).add(e)
	return false, nil
}

// routeUnread adds the letter of a record that cannot be read.
func (r *router) routeUnread(ctx context.Context, record *debezium.Record, bad *debezium.RecordError, items [][]item) error {
	n, it, err := r.unread(ctx, record, bad)
	if err != nil || applied(r.ahead, it.target, it.event) { // invariant 10
		return err
	}
	items[n] = append(items[n], it)
	r.tally()
	return nil
}

// makeReady makes the table of event i of j ready, when the items so far are sent. It reports true if the partition is held from that
// event on.
func (r *router) makeReady(ctx context.Context, j *job, i int, items [][]item) (hold bool, _ error) {
	e := &j.events[i]
	if err := r.sendItems(ctx, items, false); err != nil {
		return false, err
	}
	before := r.tables.entry(tableOf(e)).target
	if hold, err := r.prepare(ctx, j, i); err != nil || hold {
		return hold, locate(err, e)
	}
	if taken := r.tables.take(tableOf(e)); taken || before != nil && r.tables.entry(tableOf(e)).target != before {
		return false, r.flush(ctx) // the table's rows so far were folded for its former shape or name
	}
	return false, nil
}

// tally counts an item of a lane.
func (r *router) tally() {
	r.rows++
	r.sinceFlush++
	r.progress.Events++
}

// flush has every lane apply what it has folded.
func (r *router) flush(ctx context.Context) error {
	return r.sendItems(ctx, make([][]item, len(r.lanes)), true)
}

// sendItems hands each lane its items, of which there are none then; flush has it apply what it has folded.
func (r *router) sendItems(ctx context.Context, items [][]item, flush bool) error {
	if flush {
		r.sinceFlush, r.sinceFlushLen = 0, 0
	}
	for n, l := range r.lanes {
		if len(items[n]) == 0 && !flush {
			continue
		}
		if r.aside != nil {
			r.aside.forLane(items[n], n)
		}
		if err := send(ctx, l.in, work{items: items[n], flush: flush}); err != nil {
			return err
		}
		items[n] = nil // they are the lane's
	}
	return nil
}

// part cuts a checkpoint of what was routed so far, in the middle of a batch: e touches rows that are on different lanes.
func (r *router) part(ctx context.Context, items [][]item, j *job, e *debezium.Event) error {
	if err := r.sendItems(ctx, items, false); err != nil {
		return err
	}
	r.moveTo(e.Partition, debezium.Position{Offset: e.Offset, TopicID: j.batch.TopicID})
	for r.outstanding {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case cp := <-r.saved:
			r.completed(cp)
		}
	}
	return r.cut(ctx)
}

// noteHalf remembers that the last row event of a partition is the first half of a changed key.
func (r *router) noteHalf(e *debezium.Event) {
	switch {
	case e.Op == debezium.Delete && e.NewKey.Sent():
		r.halves[e.Partition] = time.Now()
	case e.Op.Row() && !e.Unsure:
		delete(r.halves, e.Partition)
	}
}
