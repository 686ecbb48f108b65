package checkpoint

import (
	"context"
	"slices"
	"time"

	"replicator/debezium"
)

// followEvery is how often a running pipeline looks for schema changes that no row follows.
const followEvery = time.Second

// following is the state of schema changes that no row asks for, such as a DROP TABLE. They are applied when all that was
// written before them is: a look finds them, the next one takes the partitions' ends (what was written before a record may
// become visible a little after it), and when these are reached it is their turn.
type following struct {
	read   time.Time // when it was last begun to look whether the topic has grown
	looked time.Time
	end    int64 // in the schema-change topic: records before it are considered; 0: none are
	marks  map[debezium.Partition]int64
}

// held is a partition whose rows wait for those of another topic: its table was renamed, and what was written under its former
// name comes first. Tables that trade names and trade them back make two topics wait for each other by turns; no two do at once, as
// what a row waits for was written before it.
type held struct {
	jobs  []*job // at most those that were read before the reader learned of it
	waits []earlier
	since time.Time // when its next record was written; what was written before it is visible settles later
	until []mark    // nil: the ends were not looked at since
}

// settles is how much later than a record those of other topics may become visible that were written before it.
const settles = time.Second

// mark is what a held partition waits for: a position to be reached, or a row that was written after a rename to be the next.
type mark struct {
	partition debezium.Partition
	offset    int64
	left      *version
}

// prepare makes the table of event i of j ready. It reports true if the partition is held from that event on.
func (r *router) prepare(ctx context.Context, j *job, i int) (hold bool, _ error) {
	e := &j.events[i]
	n, err := r.tables.need(ctx, e)
	if err != nil {
		return false, err
	}
	if hold, err := r.hold(ctx, j, i); err != nil || hold {
		return hold, err
	}
	if !n.none() {
		r.moveTo(e.Partition, debezium.Position{Offset: e.Offset, TopicID: j.batch.TopicID})
		if err := r.quiesce(ctx); err != nil {
			return false, err
		}
		if err := r.tables.bring(ctx, n, e); err != nil {
			return false, err
		}
	}
	err = r.tables.make(ctx, e)
	r.progress.DDL = r.tables.ddl
	return false, err
}

// quiesce completes a checkpoint of everything that was routed, so that no transaction is open or in doubt.
func (r *router) quiesce(ctx context.Context) error {
	for r.outstanding || r.dirty {
		if !r.outstanding {
			if err := r.cut(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case cp := <-r.saved:
			r.completed(cp)
		}
	}
	return nil
}

// hold withholds a partition if rows of other topics come before its next one.
func (r *router) hold(ctx context.Context, j *job, i int) (bool, error) {
	h := &held{jobs: []*job{j}, waits: r.tables.waitsFor(&j.events[i])}
	if len(h.waits) == 0 {
		return false, nil
	}
	h.since = j.batch.Records[i].Time
	if free, err := r.free(ctx, h); err != nil || free {
		return false, err
	}
	j.from = i
	p := j.batch.Partition
	r.moveTo(p, debezium.Position{Offset: j.events[i].Offset, TopicID: j.batch.TopicID})
	r.seen(p, j.batch.End)
	r.held[p] = h
	r.reader.Hold(p, true)
	return true, nil
}

// reached says whether all positions are at or after marks.
func (r *router) reached(marks map[debezium.Partition]int64) bool {
	for p, mark := range marks {
		if r.positions[p].Offset < mark {
			return false
		}
	}
	return true
}

// free says whether h waits for nothing more.
func (r *router) free(ctx context.Context, h *held) (bool, error) {
	if time.Since(h.since) < settles {
		return false, nil
	}
	if h.until == nil {
		ends, err := r.reader.Ends(ctx)
		if err != nil {
			return false, err
		}
		h.until = []mark{}
		for _, w := range h.waits {
			for p, end := range ends {
				if p.Topic == w.topic {
					h.until = append(h.until, mark{p, end, w.left})
				}
			}
		}
	}
	return !slices.ContainsFunc(h.until, func(m mark) bool { return !r.met(m) }), nil
}

// met says whether nothing that m is about is left to be routed.
func (r *router) met(m mark) bool {
	end := m.offset
	if at, ends := r.limits[m.partition]; ends {
		end = min(end, at)
	}
	if r.positions[m.partition].Offset >= end {
		return true
	}
	h := r.held[m.partition]
	if h == nil {
		return false
	}
	next, ok := h.jobs[0].events[h.jobs[0].from].Source.Position()
	return !ok || !m.left.after(next)
}

// release routes what was held of partitions whose wait is over. That may end the wait of others.
func (r *router) release(ctx context.Context) error {
	for released := true; released; {
		released = false
		for p, h := range r.held {
			free, err := r.free(ctx, h)
			if err != nil {
				return err
			}
			if !free {
				continue
			}
			if err := r.resume(ctx, p, h); err != nil {
				return err
			}
			released = true
		}
	}
	return nil
}

// resume routes what was held of p, until it is held again.
func (r *router) resume(ctx context.Context, p debezium.Partition, h *held) error {
	delete(r.held, p)
	r.reader.Hold(p, false)
	for _, j := range h.jobs {
		if again := r.held[p]; again != nil {
			again.jobs = append(again.jobs, j)
			continue
		}
		if err := r.process(ctx, j); err != nil {
			return err
		}
	}
	return nil
}

// follow looks for schema changes, at most once in followEvery, and applies those whose turn it is.
func (r *router) follow(ctx context.Context) error {
	f := &r.ddl
	if r.Tables.SchemaTopic == "" || time.Since(f.looked) < followEvery {
		return nil
	}
	f.looked = time.Now()
	if f.marks != nil && r.reached(f.marks) {
		end := f.end
		f.end, f.marks = 0, nil
		if err := r.apply(ctx, end); err != nil {
			return err
		}
	}
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	switch {
	case f.marks != nil:
	case f.end > 0:
		marks, err := r.reader.Ends(ctx)
		if err != nil {
			return err
		}
		f.marks = marks
	case len(r.tables.pending(r.tables.history.next)) > 0:
		f.end = r.tables.history.next
	}
	return nil
}

// catchUp reads the schema-change topic as far as it is now.
func (r *router) catchUp(ctx context.Context) error {
	r.ddl.read = time.Now()
	end, err := r.reader.EndOf(ctx, r.Tables.SchemaTopic)
	if err != nil || end <= r.tables.history.next {
		return err
	}
	if err := r.tables.history.read(ctx); err != nil {
		return err
	}
	// What was folded for a table goes before what its new target is given.
	if err := r.flush(ctx); err != nil {
		return err
	}
	r.tables.forget()
	return nil
}

// apply applies the schema changes in records before the offset end that no row has asked for.
func (r *router) apply(ctx context.Context, end int64) error {
	if len(r.tables.pending(end)) == 0 {
		return nil
	}
	if err := r.flush(ctx); err != nil {
		return err
	}
	if err := r.quiesce(ctx); err != nil {
		return err
	}
	for _, v := range r.tables.pending(end) {
		if err := r.tables.bring(ctx, &need{steps: r.tables.steps(v)}, nil); err != nil {
			return err
		}
	}
	r.progress.DDL = r.tables.ddl
	r.report()
	return nil
}

// finish ends the run. What has caught up has also applied the schema changes at the end.
func (r *router) finish(ctx context.Context) error {
	if stopped := r.stopping == nil; !stopped && r.UntilCaughtUp {
		if err := r.apply(ctx, r.tables.history.began); err != nil {
			return err
		}
	}
	return errDone
}
