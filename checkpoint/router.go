package checkpoint

import (
	"context"
	"time"

	"replicator/debezium"
)

// A lane is told to apply what it has folded at the first of these, so that memory stays bounded and the database works
// while more is read.
const (
	flushRows  = 20_000
	flushBytes = 32 << 20
)

// moveWait bounds how long a cut or a flush waits for the second half of a changed key: Debezium sends a delete and a
// create, and only together do they keep the values that the create does not carry.
const moveWait = time.Second

// maxAsked bounds the requests for a savepoint that wait for the next cut.
const maxAsked = 16

// idleWait is how long the router sleeps when nothing is due.
const idleWait = time.Hour

// router is the one goroutine that owns the positions, the tables and the checkpoint number (invariant 1).
type router struct {
	*run
	tables  *tables
	aside   *letters // nil: records are not set aside
	lanes   []*lane
	place   *placement
	ends    map[debezium.Partition]int64 // where the partitions ended at start, or the run ends
	limits  map[debezium.Partition]int64 // where partitions are not read any further
	reader  Reader
	cuts    chan<- *barrier
	saved   <-chan Checkpoint
	barrier *barrier // the last one that was cut
	held    map[debezium.Partition]*held
	ddl     following

	positions debezium.Positions
	ahead     []Ahead                      // what lanes had applied before the run began
	repeats   *repeats                     // nil: events that are sent again are applied again
	lags      map[debezium.Partition]int64 // offsets from the position to the last stable offset, as last seen
	left      map[debezium.Partition]int64 // offsets from the position to the end at start
	behind    int64                        // the sum of lags
	toGo      int64                        // the sum of left
	next      int64                        // the number of the next checkpoint

	rows, bytes   int64 // since the last cut
	sinceFlush    int64
	sinceFlushLen int64
	dirty         bool            // positions changed since the last cut
	stopping      <-chan struct{} // closed when the run is to end; nil: it was
	ending        bool            // nothing more is routed: a last cut, and the run is over
	lastCut       time.Time
	outstanding   bool
	halves        map[debezium.Partition]time.Time // deletes of changed keys whose creates are still to come
	asked         []chan<- Checkpoint              // for a savepoint, the next cut
	promised      []chan<- Checkpoint              // the outstanding checkpoint, which is a savepoint

	counts  map[sourceTable]*count // since the last cut
	asides  map[refusedCount]int64 // likewise: records set aside
	oldest  time.Time              // of what was routed since the last cut; zero: nothing, or its age is not known
	cutting time.Time              // likewise, of the outstanding checkpoint

	wholes   wholes
	progress Progress
	told     int64 // of progress.Repeated: how many were logged
}

func newRouter(r *run, t *tables, aside *letters, lanes []*lane, reader Reader, ends map[debezium.Partition]int64, cuts chan<- *barrier, saved <-chan Checkpoint) *router {
	rt := &router{
		run: r, tables: t, aside: aside, lanes: lanes, place: newPlacement(len(lanes), r.Delivery == OnePhase), reader: reader, ends: ends, cuts: cuts, saved: saved,
		held:      map[debezium.Partition]*held{},
		positions: r.last.Positions.Clone(), ahead: r.last.Ahead, next: r.last.ID + 1,
		counts: map[sourceTable]*count{}, asides: map[refusedCount]int64{},
		limits: map[debezium.Partition]int64{}, lags: map[debezium.Partition]int64{}, left: map[debezium.Partition]int64{},
		lastCut: time.Now(), halves: map[debezium.Partition]time.Time{},
	}
	t.coming = rt.coming
	if r.Deduplicate {
		rt.repeats = newRepeats(r.Config, r.last.Seen)
	}
	if rt.positions == nil {
		rt.positions = debezium.Positions{}
	}
	for p, end := range ends {
		if r.Until != nil {
			rt.end(p, max(r.Until[p].Offset, rt.positions[p].Offset))
		}
		rt.seen(p, end)
	}
	rt.progress.Checkpoint = r.last.ID
	rt.progress.Total = rt.toGo
	return rt
}

// loop routes until it is stopped or has caught up, and then returns errDone when the last checkpoint is complete.
func (r *router) loop(ctx context.Context, ordered <-chan *job) error {
	timer := time.NewTimer(idleWait)
	defer timer.Stop()
	r.stopping = r.stop
	r.report()
	for {
		paused, change := r.Gate.state()
		if err := r.act(ctx, paused, len(ordered) == 0); err != nil {
			return err
		}
		jobs, savepoints := ordered, r.Savepoints
		if !r.takes(paused) {
			jobs = nil
		}
		if len(r.asked) >= maxAsked {
			savepoints = nil
		}
		timer.Reset(r.wait(time.Now()))
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-r.stopping:
			r.stopping, r.ending = nil, true
		case <-timer.C:
		case <-change:
		case answer := <-savepoints:
			r.asked = append(r.asked, answer)
		case cp := <-r.saved:
			r.completed(cp)
		case j := <-jobs:
			if err := r.take(ctx, j); err != nil {
				return err
			}
		}
	}
}

// act does everything whose time has come. drained says that no batch waits to be routed.
func (r *router) act(ctx context.Context, paused, drained bool) error {
	if err := r.decideLetters(ctx); err != nil {
		return err
	}
	if r.takes(paused) {
		if err := r.release(ctx); err != nil {
			return err
		}
	}
	r.ending = r.ending || r.UntilCaughtUp && r.toGo == 0
	switch {
	case r.outstanding:
	case r.due(time.Now(), drained):
		if err := r.cut(ctx); err != nil {
			return err
		}
	case r.ending && !r.dirty:
		return r.finish(ctx)
	}
	return r.follow(ctx)
}

// takes says whether anything may be routed: the next checkpoint takes in no more than it should while one is outstanding.
func (r *router) takes(paused bool) bool {
	return !r.ending && !paused && (!r.outstanding || !r.full())
}

func (r *router) completed(cp Checkpoint) {
	r.outstanding, r.gather, r.cutting = false, false, time.Time{}
	r.refused.saved(cp.ID)
	r.answer(cp)
	r.tellRepeated()
	r.progress.Checkpoint, r.progress.Rows = cp.ID, r.progress.Rows+cp.Rows
	r.report()
}

func (r *router) full() bool {
	rows := int64(r.Rows)
	if r.gather {
		rows *= gatherTimes
	}
	return r.rows >= rows || r.bytes >= r.Bytes
}

// A checkpoint that gathers has gatherTimes the rows of another, and is cut when nothing more has come for gatherWait.
const (
	gatherTimes = 8
	gatherWait  = time.Second
)

// due says whether a checkpoint is to be cut now. drained says that no batch waits to be routed.
func (r *router) due(now time.Time, drained bool) bool {
	if len(r.asked) > 0 && !r.halfMoved(now) {
		return true
	}
	if !r.dirty {
		return false
	}
	if !r.ending && r.halfMoved(now) {
		return false
	}
	since := now.Sub(r.lastCut)
	if r.gather {
		return r.ending || r.full() || drained && r.behind == 0 && since >= gatherWait
	}
	return r.ending || r.full() || since >= r.Interval ||
		r.rows > 0 && drained && r.behind == 0 && since >= r.MinInterval
}

// wait is how long it is until something may be due.
func (r *router) wait(now time.Time) time.Duration {
	most := idleWait
	if r.Tables.SchemaTopic != "" {
		most = followEvery
	}
	if r.aside != nil {
		most = min(most, lettersEvery)
	}
	if !r.dirty || r.outstanding {
		return most
	}
	d := min(r.Interval, most)
	switch {
	case r.gather:
		d = gatherWait
	case r.rows > 0 && r.behind == 0:
		d = min(d, r.MinInterval)
	}
	d -= now.Sub(r.lastCut)
	for _, since := range r.halves {
		d = max(d, moveWait-now.Sub(since))
	}
	return max(d, time.Millisecond)
}

// halfMoved says whether a changed key's create is still to come, and worth waiting for.
func (r *router) halfMoved(now time.Time) bool {
	for p, since := range r.halves {
		if now.Sub(since) < moveWait {
			return true
		}
		delete(r.halves, p)
	}
	return false
}

// take routes one batch, or keeps it while its partition is held.
func (r *router) take(ctx context.Context, j *job) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-j.done:
	}
	if r.Tables.SchemaTopic != "" && !j.came.Before(r.ddl.read) { // invariant 17
		if err := r.catchUp(ctx); err != nil {
			return err
		}
	}
	if j.whole != nil {
		return r.takeWhole(ctx, j.whole)
	}
	r.limit(j)
	if h := r.held[j.batch.Partition]; h != nil {
		h.jobs = append(h.jobs, j)
		return nil
	}
	return r.process(ctx, j)
}

func (r *router) process(ctx context.Context, j *job) error {
	r.noteAge(j.events)
	whole, err := r.route(ctx, j)
	if err != nil || !whole {
		return err
	}
	b := &j.batch
	if j.err != nil {
		return badRecord(j.err)
	}
	r.moveTo(b.Partition, debezium.Position{Offset: b.Next, TopicID: b.TopicID})
	r.seen(b.Partition, b.End)
	r.report()
	return nil
}

// moveTo sets a partition's position.
func (r *router) moveTo(p debezium.Partition, to debezium.Position) {
	if pos := r.positions[p]; pos.Offset != to.Offset || pos.TopicID != to.TopicID {
		r.positions[p] = to
		r.dirty = true
	}
}

// cut sends a barrier through every lane and hands it to the committer.
func (r *router) cut(ctx context.Context) error {
	r.ahead = beyond(r.ahead, r.positions)
	b := &barrier{
		told: Completed{Cut: time.Now(), Bytes: r.bytes, Tables: r.counted(), Aside: r.countedAside(), Ends: r.endsSeen()}, letters: r.aside.cut(),
		id: r.next, positions: r.positions.Clone(), ahead: r.ahead, rows: r.rows, savepoint: len(r.asked) > 0,
		lanes: len(r.lanes), passed: make(chan passed, len(r.lanes)), committed: make(chan struct{}),
	}
	r.barrier = b
	for _, l := range r.lanes {
		if err := send(ctx, l.in, work{barrier: b}); err != nil {
			return err
		}
	}
	if r.repeats != nil { // invariant 9
		b.seen = r.repeats.seen()
	}
	if err := send(ctx, r.cuts, b); err != nil {
		return err
	}
	r.place.passed()
	r.next++
	r.asked, r.promised = nil, r.asked
	r.rows, r.bytes, r.sinceFlush, r.sinceFlushLen = 0, 0, 0, 0
	r.cutting, r.oldest = r.oldest, time.Time{}
	r.dirty, r.outstanding, r.lastCut = false, true, time.Now()
	if r.aside != nil {
		r.aside.causes = 0
	}
	return nil
}

// abandon aborts the transactions that lanes had handed over when the run failed, and nobody has taken. It is called when all of
// the run's goroutines have ended.
func (r *router) abandon(ctx context.Context) {
	for r.barrier != nil {
		select {
		case p := <-r.barrier.passed:
			if p.txn == nil {
				continue
			}
			if err := abort(ctx, p.txn); err != nil {
				r.Log.Debug("abort after a failure", "error", err)
			}
		default:
			return
		}
	}
}

// seen notes a partition's last stable offset, and keeps the sums of what is left to read.
func (r *router) seen(p debezium.Partition, end int64) {
	at := r.positions[p].Offset
	lag := max(0, end-at)
	r.behind += lag - r.lags[p]
	r.lags[p] = lag
	togo := max(0, r.ends[p]-at)
	r.toGo += togo - r.left[p]
	r.left[p] = togo
}

// coming returns the topics of which there is more to read.
func (r *router) coming() map[string]bool {
	out := map[string]bool{}
	for p, lag := range r.lags {
		if lag > 0 {
			out[p.Topic] = true
		}
	}
	return out
}

// tellRepeated logs what was dropped since the last checkpoint: a connector that restarted has gone back so far.
func (r *router) tellRepeated() {
	if n := r.progress.Repeated - r.told; n > 0 {
		r.told = r.progress.Repeated
		r.Log.Info("dropped events that were sent again", "pipeline", r.Pipeline, "events", n, "since_start", r.told)
	}
}

func (r *router) report() {
	p := r.progress
	p.Lag, p.ToGo, p.Oldest = r.behind, r.toGo, r.cutting
	if p.Oldest.IsZero() {
		p.Oldest = r.oldest
	}
	if r.aside != nil {
		p.AsideRows = int64(len(r.aside.rows))
	}
	r.Config.Progress(p)
}
