package kafka

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"replicator/debezium"
)

// part is one partition that is read. Its key, topic id and what fetching needs belong to whoever has set busy; the rest is
// guarded by Reader.mu.
type part struct {
	key     debezium.Partition
	topicID string
	next    int64 // the next offset to fetch
	corrupt int   // how often the batch at next could not be decoded

	leader   int32
	busy     bool  // in a fetch; next moves only then
	queued   int64 // cost of its batches in the queue
	withheld bool  // by Hold: Next passes its batches over
	retryAt  time.Time
	failures int       // since it last went on
	failing  time.Time // since when
}

// parts returns t's partitions, without positions.
func (t topicMeta) parts() ([]*part, error) {
	if t.err != codeNone {
		p := debezium.Partition{Topic: t.name}
		if err := refused(p, -1, t.err); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("metadata of topic %s: %w", t.name, t.err)
	}
	out := make([]*part, len(t.partitions))
	for i, p := range t.partitions {
		out[i] = &part{key: debezium.Partition{Topic: t.name, ID: p.id}, topicID: t.id, leader: p.leader}
	}
	return out, nil
}

// queued is a batch that waits to be taken, and what it costs to keep.
type queued struct {
	batch debezium.Batch
	part  *part
	cost  int64
}

// Reader is one run of reading. Next is called by one goroutine at a time; the other methods by any.
//
// The queue between the fetching goroutines and Next holds Config.Buffer bytes, and exceeds it by no more than what the
// fetches that were under way when it filled bring, decompressed: one for each broker.
type Reader struct {
	source  *Source
	cluster *cluster
	match   func(topicMeta) bool
	start   debezium.Positions
	end     map[debezium.Partition]int64
	cancel  context.CancelFunc
	done    chan struct{} // closed when all goroutines have ended
	refresh chan struct{} // asks for metadata; one wish is as good as many

	missing map[debezium.Partition]time.Time // since when metadata lacks it; of Open, then of run

	mu        sync.Mutex
	parts     map[debezium.Partition]*part
	order     []*part // parts, in the order in which they became known
	queue     []queued
	elsewhere map[string]int32 // of topics that EndOf was asked for
	held      int64            // cost of the queue, and what fetches under way may bring
	takes     int              // how often taken was signalled
	taken     chan struct{}    // closed, and made anew, when a batch was taken or a partition got another leader
	freed     chan struct{}    // the same when a fetch gave back what it had reserved
	ready     chan struct{}    // holds a token when the queue or err was changed
	err       error            // why reading ended; returned by Next after the queue is empty
}

// Open begins to read after from. A partition that from does not name is read by Config.Start if from is nil, and from its
// beginning otherwise, as is every partition that appears later: it is new. Positions of topics that the source does not
// match are ignored. ctx bounds Open only; reading ends with Close.
//
// Open tries for as long as Config.GiveUp; a position that the log does not hold and a topic that is gone or another one are
// an [Error] at once.
func (s *Source) Open(ctx context.Context, from debezium.Positions) (*Reader, error) {
	r, err := s.open(ctx, s.matches, from)
	if err == nil && len(r.Start()) == 0 && s.cfg.Only == nil {
		s.cfg.Log.Warn("no topic matches yet; those that appear are read from their beginning", "topics", s.cfg.Topics)
	}
	return r, err
}

func (s *Source) open(ctx context.Context, match func(topicMeta) bool, from debezium.Positions) (*Reader, error) {
	r := &Reader{
		source: s, cluster: s.connect(), match: match,
		done: make(chan struct{}), refresh: make(chan struct{}, 1), ready: make(chan struct{}, 1),
		taken: make(chan struct{}), freed: make(chan struct{}),
		missing: map[debezium.Partition]time.Time{}, elsewhere: map[string]int32{},
	}
	err := r.cluster.attempts(ctx, s.cfg.GiveUp, func() error { return r.locate(ctx, from) })
	if err != nil {
		r.cluster.reset()
		return nil, err
	}
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	r.cancel = cancel
	go r.run(run)
	return r, nil
}

// Start is where each partition known at Open is read from.
func (r *Reader) Start() debezium.Positions { return r.start.Clone() }

// End is each one's last stable offset at that time.
func (r *Reader) End() map[debezium.Partition]int64 { return maps.Clone(r.end) }

// Next returns the next batch of any partition, in offset order within each, and waits for one. A batch without records says
// how far the position moved over what is not to be read. After an error the same error comes again: an [Error], an error that
// may pass if the topics are opened again, ctx's, or [ErrClosed].
func (r *Reader) Next(ctx context.Context) (debezium.Batch, error) {
	for {
		r.mu.Lock()
		if q, ok := r.take(); ok {
			r.mu.Unlock()
			return q.batch, nil
		}
		err := r.err
		r.mu.Unlock()
		if err != nil {
			return debezium.Batch{}, err
		}
		select {
		case <-r.ready:
		case <-r.done:
			r.fail(ErrClosed)
		case <-ctx.Done():
			return debezium.Batch{}, ctx.Err()
		}
	}
}

// take takes the first batch out of the queue whose partition is not withheld. r.mu is held.
func (r *Reader) take() (queued, bool) {
	at := slices.IndexFunc(r.queue, func(q queued) bool { return !q.part.withheld })
	if at < 0 {
		return queued{}, false
	}
	q := r.queue[at]
	if at == 0 { // the usual case copies nothing
		r.queue[0] = queued{}
		r.queue = r.queue[1:]
	} else {
		r.queue = slices.Delete(r.queue, at, at+1)
	}
	q.part.queued -= q.cost
	r.held -= q.cost
	r.signalTaken()
	return q, true
}

// Hold makes Next pass a partition over, or ends that. What is fetched of it meanwhile stays in the queue, up to the
// partition's share of Config.Buffer.
func (r *Reader) Hold(key debezium.Partition, hold bool) {
	r.mu.Lock()
	if p := r.parts[key]; p != nil {
		p.withheld = hold
	}
	r.mu.Unlock()
	r.wake()
}

// Ends returns the last stable offset, as it is now, of each partition that is read.
func (r *Reader) Ends(ctx context.Context) (map[debezium.Partition]int64, error) {
	r.mu.Lock()
	asked := make([]*part, len(r.order))
	for i, p := range r.order {
		asked[i] = &part{key: p.key, leader: p.leader}
	}
	r.mu.Unlock()
	ends, err := r.cluster.offsets(ctx, asked, atEnd, true)
	if err != nil {
		return nil, fmt.Errorf("ask for the ends of the partitions: %w", err)
	}
	return ends, nil
}

// EndOf returns the last stable offset, as it is now, of the first partition of a topic that need not be read.
func (r *Reader) EndOf(ctx context.Context, topic string) (int64, error) {
	key := debezium.Partition{Topic: topic}
	r.mu.Lock()
	leader, known := r.elsewhere[topic]
	r.mu.Unlock()
	for {
		if !known {
			m, err := r.cluster.metadata(ctx)
			if err != nil {
				return 0, fmt.Errorf("ask for the end of topic %s: %w", topic, err)
			}
			leader = m.leader(key)
		}
		ends, err := r.cluster.offsets(ctx, []*part{{key: key, leader: leader}}, atEnd, true)
		if err == nil {
			r.mu.Lock()
			r.elsewhere[topic] = leader
			r.mu.Unlock()
			return ends[key], nil
		}
		if !known {
			return 0, fmt.Errorf("ask for the end of topic %s: %w", topic, err)
		}
		known = false // the partition may have another leader
	}
}

// Close ends reading and waits until it has ended. Batches not yet taken are lost to this Reader. It may be called twice.
func (r *Reader) Close() error {
	r.mu.Lock()
	if r.err == nil {
		r.err = ErrClosed
	}
	r.queue = nil
	r.mu.Unlock()
	r.cancel()
	<-r.done
	r.wake()
	return nil
}

// fail ends reading with err, unless it has ended already.
func (r *Reader) fail(err error) {
	r.mu.Lock()
	if r.err == nil {
		r.err = err
	}
	r.mu.Unlock()
	r.cancel()
	r.wake()
}

func (r *Reader) wake() {
	select {
	case r.ready <- struct{}{}:
	default:
	}
}

// signalTaken lets fetches that left partitions out look again. r.mu is held.
func (r *Reader) signalTaken() {
	r.takes++
	close(r.taken)
	r.taken = make(chan struct{})
}

// locate finds the partitions to read and where to start, and sets start, end and parts when all of it is known.
func (r *Reader) locate(ctx context.Context, from debezium.Positions) error {
	m, err := r.cluster.metadata(ctx)
	if err != nil {
		return err
	}
	m = r.source.only(m)
	parts := map[debezium.Partition]*part{}
	var order []*part
	for _, t := range m.topics {
		if !r.match(t) {
			continue
		}
		list, err := t.parts()
		if err != nil {
			return err
		}
		for _, p := range list {
			parts[p.key] = p
		}
		order = append(order, list...)
	}
	if err := r.identify(parts, from); err != nil {
		return err
	}
	ends, err := r.cluster.offsets(ctx, order, atEnd, true)
	if err != nil {
		return err
	}
	if err := r.place(ctx, order, from, ends); err != nil {
		return err
	}
	start := make(debezium.Positions, len(order))
	for _, p := range order {
		start[p.key] = debezium.Position{Offset: p.next, TopicID: p.topicID}
	}
	r.start, r.end, r.parts, r.order = start, ends, parts, order
	return nil
}

// identify checks that the partitions of from are there and are those that from was made for.
func (r *Reader) identify(parts map[debezium.Partition]*part, from debezium.Positions) error {
	for key, pos := range from {
		if !r.match(topicMeta{name: key.Topic}) {
			r.source.cfg.Log.Warn("a position is ignored: the configuration does not read its topic", "topic", key.Topic, "partition", key.ID, "offset", pos.Offset)
			continue
		}
		p, ok := parts[key]
		if !ok {
			if r.goneFor(key, time.Now()) >= r.source.confirm {
				return deleted(key, pos.Offset)
			}
			return fmt.Errorf("%v: no broker knows this partition", key)
		}
		if pos.TopicID != "" && p.topicID != "" && pos.TopicID != p.topicID {
			return recreated(key, pos.Offset, pos.TopicID, p.topicID)
		}
		delete(r.missing, key)
	}
	return nil
}

// goneFor notes that metadata lacks key at now and returns for how long it has.
func (r *Reader) goneFor(key debezium.Partition, now time.Time) time.Duration {
	since, ok := r.missing[key]
	if !ok {
		r.missing[key] = now
		return 0
	}
	return now.Sub(since)
}

// place sets the next offset of each of parts.
func (r *Reader) place(ctx context.Context, parts []*part, from debezium.Positions, ends map[debezium.Partition]int64) error {
	starts, err := r.cluster.offsets(ctx, parts, atStart, true)
	if err != nil {
		return err
	}
	first := starts // of partitions that from does not name
	if from == nil {
		if first, err = r.firstStart(ctx, parts, starts, ends); err != nil {
			return err
		}
	}
	var beyond []*part // after the last stable offset: fine below the high watermark
	for _, p := range parts {
		pos, ok := from[p.key]
		if !ok {
			p.next = first[p.key]
			continue
		}
		p.next = pos.Offset
		if p.next < starts[p.key] {
			return outOfRange(p.key, p.next, starts[p.key], ends[p.key])
		}
		if p.next > ends[p.key] {
			beyond = append(beyond, p)
		}
	}
	if len(beyond) == 0 {
		return nil
	}
	watermarks, err := r.cluster.offsets(ctx, beyond, atEnd, false)
	if err != nil {
		return err
	}
	for _, p := range beyond {
		if p.next > watermarks[p.key] {
			return outOfRange(p.key, p.next, starts[p.key], watermarks[p.key])
		}
	}
	return nil
}

// firstStart is where Config.Start begins.
func (r *Reader) firstStart(ctx context.Context, parts []*part, starts, ends map[debezium.Partition]int64) (map[debezium.Partition]int64, error) {
	switch at := int64(r.source.policy); at {
	case atStart:
		return starts, nil
	case atEnd:
		return ends, nil
	default:
		young, err := r.cluster.offsets(ctx, parts, at, true)
		if err != nil {
			return nil, err
		}
		for key, offset := range young {
			if offset < 0 || offset > ends[key] { // no record is as young, or only one of an open transaction
				young[key] = ends[key]
			}
		}
		return young, nil
	}
}
