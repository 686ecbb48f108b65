package kafka

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator/debezium"
)

// maxCorrupt is how often a batch that cannot be decoded is fetched before it counts as damaged on the broker, and not on the way.
const maxCorrupt = 3

// claim is a fetch to be made, or a wait.
type claim struct {
	parts    []*part
	most     int  // bytes for each
	next     int  // where the next claim begins to look
	led      int  // partitions of the broker that could have been in it, had there been room
	withheld bool // partitions of the broker were left out, which may be wanted before a fetch that waits returns
	takes    int
	taken    <-chan struct{}
	freed    <-chan struct{} // if another fetch must end first
	retry    time.Duration   // until a partition that failed may be tried again; 0: none
}

// fetchFrom fetches the partitions that broker leads until ctx ends.
//
// While partitions are left out, because their batches were not taken or for want of room, the others are asked without waiting
// at the broker, and the waiting is done here, when all had their turn: a batch being taken ends it.
func (r *Reader) fetchFrom(ctx context.Context, broker int32) {
	dec := newDecoder(maxBatch)
	wait := r.source.cfg.MaxWait
	idle := 0 // partitions asked in a row that had nothing
	for cursor := 0; ctx.Err() == nil; {
		c := r.claim(broker, cursor)
		cursor = c.next
		if len(c.parts) == 0 {
			r.await(ctx, c.taken, c.freed, c.retry)
			continue
		}
		hold := wait
		if c.withheld {
			hold = 0
		} else if c.retry > 0 {
			hold = min(wait, max(c.retry, time.Millisecond))
		}
		found := r.fetch(ctx, broker, c, dec, hold)
		taken, takes := r.release(c)
		if idle += len(c.parts); found || !c.withheld {
			idle = 0
		}
		if idle > 0 && idle >= c.led && takes == c.takes {
			r.await(ctx, taken, nil, wait)
			idle = 0
		}
	}
}

// await waits for one of the signals, at most for limit if that is not 0.
func (r *Reader) await(ctx context.Context, taken, freed <-chan struct{}, limit time.Duration) {
	var late <-chan time.Time
	if limit > 0 {
		t := time.NewTimer(limit)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-ctx.Done():
	case <-taken:
	case <-freed:
	case <-late:
	}
}

// claim takes the partitions that broker leads, that are not in another fetch, and for which there is room. It begins at cursor,
// after those of the claim before: a broker that reaches a maximum serves the first ones.
func (r *Reader) claim(broker int32, cursor int) claim {
	cfg := &r.source.cfg
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	share := cfg.Buffer / int64(max(len(r.order), 1))
	c := claim{takes: r.takes, taken: r.taken, most: int(min(int64(cfg.PartitionMax), max(share, 1))), next: cursor + 1}
	for i := range r.order {
		at := (cursor + i) % len(r.order)
		p := r.order[at]
		if p.leader != broker {
			continue
		}
		if p.busy { // in a fetch from the leader that it had before
			c.freed = r.freed
			continue
		}
		if left := p.retryAt.Sub(now); left > 0 {
			if c.retry == 0 || left < c.retry {
				c.retry = left
			}
			continue
		}
		if p.queued >= max(share, int64(c.most)) {
			c.withheld = true
			continue
		}
		c.led++
		if r.held >= cfg.Buffer {
			c.withheld, c.freed = true, r.freed
			continue
		}
		p.busy = true
		r.held += int64(c.most)
		c.parts = append(c.parts, p)
		c.next = at + 1
	}
	return c
}

// release ends a claim. It returns the signal to wait for, and how often it was given.
func (r *Reader) release(c claim) (<-chan struct{}, int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range c.parts {
		p.busy = false
	}
	r.held -= int64(len(c.parts)) * int64(c.most)
	close(r.freed)
	r.freed = make(chan struct{})
	return r.taken, r.takes
}

// fetch makes a claim's request and says whether it moved a position.
func (r *Reader) fetch(ctx context.Context, broker int32, c claim, dec *decoder, hold time.Duration) (found bool) {
	answers, version, err := r.cluster.fetch(ctx, broker, c.parts, c.most, hold)
	var final *Error
	switch {
	case ctx.Err() != nil:
		return false
	case errors.As(err, &final):
		r.fail(err)
		return false
	case err != nil:
		// Neither this connection nor what is known of the brokers can be relied on.
		r.cluster.reset()
		r.wantMetadata()
		for _, p := range c.parts {
			r.setBack(p, err)
		}
		return false
	}
	for _, p := range c.parts {
		if f, ok := answers[p.scope(version)]; ok {
			found = r.accept(ctx, p, f, dec) || found
		}
	}
	return found
}

// accept deals with one partition's answer and says whether its position moved.
func (r *Reader) accept(ctx context.Context, p *part, f fetched, dec *decoder) bool {
	switch f.err {
	case codeNone:
	case codeOffsetOutOfRange:
		r.outOfRange(ctx, p)
		return false
	default:
		if err := refused(p.key, p.next, f.err); err != nil {
			r.fail(err)
			return false
		}
		// Another leader, a topic that is gone or another one, or a broker's trouble: metadata tells.
		r.wantMetadata()
		r.setBack(p, f.err)
		return false
	}
	d, err := dec.decode(p.key, p.next, f.set, f.aborted)
	if err == nil && d.next == p.next && len(f.set) > 0 {
		err = errors.New("every batch of the answer ends before the offset asked for")
	}
	moved := d.next > p.next
	if moved {
		p.corrupt = 0
		r.push(p, d, f)
	}
	if err != nil {
		r.undecodable(p, err)
	}
	return moved
}

// push puts what was decoded into the queue and moves p's position.
func (r *Reader) push(p *part, d decoded, f fetched) {
	whole := queued{
		batch: debezium.Batch{Partition: p.key, Records: d.records, Next: d.next, End: f.stable, Bytes: d.bytes, TopicID: p.topicID},
		part:  p,
		cost:  int64(len(f.set) + d.memory),
	}
	pieces := whole.split(r.source.cfg.PartitionMax)
	r.mu.Lock()
	p.next, p.failures, p.failing, p.retryAt = d.next, 0, time.Time{}, time.Time{}
	if r.err == nil {
		r.queue = append(r.queue, pieces...)
		r.held += whole.cost
		p.queued += whole.cost
	}
	r.mu.Unlock()
	r.wake()
}

// split divides a batch into ones of at most so many bytes, or of one record. What compresses well is otherwise many times what was asked
// for, and whoever decodes a few batches ahead would hold that many times over, as events.
func (q queued) split(most int) []queued {
	var out []queued
	for q.batch.Bytes > most {
		n, size := 0, 0
		for ; n < len(q.batch.Records); n++ {
			next := recordBytes(&q.batch.Records[n])
			if n > 0 && size+next > most {
				break
			}
			size += next
		}
		if n == len(q.batch.Records) {
			break // one large record
		}
		piece := q
		// Copied, so that what was taken does not stay for the sake of what was not.
		piece.batch.Records, q.batch.Records = slices.Clone(q.batch.Records[:n]), q.batch.Records[n:]
		piece.batch.Next, piece.batch.Bytes = q.batch.Records[0].Offset, size
		piece.cost = int64(float64(q.cost) * float64(size) / float64(q.batch.Bytes))
		q.batch.Bytes -= size
		q.cost -= piece.cost
		out = append(out, piece)
	}
	if len(out) > 0 {
		q.batch.Records = slices.Clone(q.batch.Records)
	}
	return append(out, q)
}

// setBack makes p wait before it is fetched again, or ends reading when it has failed for too long.
func (r *Reader) setBack(p *part, err error) {
	const loud = 8 // failures in a row; fewer are a leader that moves
	now := time.Now()
	r.mu.Lock()
	if p.failures == 0 {
		p.failing = now
	}
	p.failures++
	n, since := p.failures, now.Sub(p.failing)
	p.retryAt = now.Add(min(firstBackoff<<min(n-1, 10), lastBackoff))
	r.mu.Unlock()
	if since >= r.source.cfg.GiveUp {
		r.fail(fmt.Errorf("kafka: %v at offset %d could not be read for %v: %w", p.key, p.next, since.Round(time.Second), err))
		return
	}
	if n == loud {
		r.source.cfg.Log.Warn("a partition cannot be read, trying again", "topic", p.key.Topic, "partition", p.key.ID, "offset", p.next, "error", err)
	}
}

// outOfRange finds out why the broker says that it does not hold p's position.
func (r *Reader) outOfRange(ctx context.Context, p *part) {
	err := r.explain(ctx, p)
	var final *Error
	switch {
	case ctx.Err() != nil:
	case errors.As(err, &final):
		r.fail(err)
	default:
		r.wantMetadata()
		r.setBack(p, err)
	}
}

// explain compares p's topic and position with the log as it is now. Its error is never nil: a position that the log does hold
// was refused by a new leader that had not caught up.
func (r *Reader) explain(ctx context.Context, p *part) error {
	m, err := r.cluster.metadata(ctx)
	if err != nil {
		return err
	}
	for _, t := range m.topics {
		if t.name == p.key.Topic && t.id != "" && p.topicID != "" && t.id != p.topicID {
			return recreated(p.key, p.next, p.topicID, t.id)
		}
	}
	r.mu.Lock()
	asked := []*part{{key: p.key, leader: p.leader}}
	r.mu.Unlock()
	starts, err := r.cluster.offsets(ctx, asked, atStart, false)
	if err != nil {
		return err
	}
	ends, err := r.cluster.offsets(ctx, asked, atEnd, false)
	if err != nil {
		return err
	}
	if start, end := starts[p.key], ends[p.key]; p.next < start || p.next > end {
		return outOfRange(p.key, p.next, start, end)
	}
	return codeOffsetOutOfRange
}

// undecodable fetches the batch again, in case it was damaged on the way, or ends reading.
func (r *Reader) undecodable(p *part, err error) {
	e := &Error{
		Class: CorruptBatch, Partition: p.key, Offset: p.next, Err: err,
		Detail: "the broker's log is damaged here, or this is a limit of the reader; nothing after this offset can be read until the records are removed or a new snapshot is taken",
	}
	if errors.Is(err, errMagic) || errors.Is(err, errCompression) {
		e.Class = UnsupportedFormat
		e.Detail = "upgrade the topic's message format to version 2 (message.format.version 0.11 or newer) and its compression to one that Kafka defines"
		r.fail(e)
		return
	}
	if p.corrupt++; p.corrupt >= maxCorrupt {
		r.fail(e)
		return
	}
	r.setBack(p, err)
}
