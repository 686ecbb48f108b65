package kafka

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"replicator/debezium"
)

// minRefresh is the least time between two looks at metadata, whoever asks.
const minRefresh = 20 * time.Millisecond

// run keeps up with metadata and has one fetching goroutine for each broker that leads a partition. It ends when ctx does,
// after all of them.
func (r *Reader) run(ctx context.Context) {
	defer close(r.done)
	defer r.cluster.reset()
	var fetchers sync.WaitGroup
	defer fetchers.Wait()
	running := map[int32]bool{}
	tick := time.NewTicker(r.source.cfg.DiscoverEvery)
	defer tick.Stop()
	for {
		for _, broker := range r.leaders() {
			if !running[broker] {
				running[broker] = true
				fetchers.Go(func() { r.fetchFrom(ctx, broker) })
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-r.refresh:
		}
		if err := r.discover(ctx); err != nil {
			if ctx.Err() == nil {
				r.fail(err)
			}
			return
		}
		if pause(ctx, minRefresh) != nil {
			return
		}
	}
}

func (r *Reader) leaders() []int32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	seen := map[int32]bool{}
	var out []int32
	for _, p := range r.order {
		if p.leader >= 0 && !seen[p.leader] {
			seen[p.leader] = true
			out = append(out, p.leader)
		}
	}
	return out
}

// wantMetadata asks run to look at metadata soon.
func (r *Reader) wantMetadata() {
	select {
	case r.refresh <- struct{}{}:
	default:
	}
}

// discover looks at metadata until the partitions that are read are all there or count as deleted, and new ones are read. It
// returns what ends reading: an Error, or what went on for as long as Config.GiveUp.
func (r *Reader) discover(ctx context.Context) error {
	began := time.Now()
	for delay := firstBackoff; ; delay = min(2*delay, lastBackoff) {
		var m metadata
		err := r.cluster.attempts(ctx, r.source.cfg.GiveUp, func() (err error) {
			m, err = r.cluster.metadata(ctx)
			return err
		})
		m = r.source.only(m)
		if err != nil {
			return fmt.Errorf("no broker answered for %v: %w", r.source.cfg.GiveUp, err)
		}
		settled, err := r.follow(m)
		if err != nil {
			return err
		}
		var final *Error
		switch err := r.adopt(ctx, m); {
		case err == nil && settled:
			return nil
		case errors.As(err, &final):
			return err
		case err != nil && time.Since(began) >= r.source.cfg.GiveUp:
			return fmt.Errorf("a new partition could not be asked for its beginning for %v: %w", r.source.cfg.GiveUp, err)
		}
		if err := pause(ctx, delay); err != nil {
			return err
		}
	}
}

// follow compares the partitions that are read with m. It is settled when m has them all.
func (r *Reader) follow(m metadata) (settled bool, err error) {
	now := time.Now()
	type known struct {
		id     string
		leader int32
	}
	seen := map[debezium.Partition]known{}
	for _, t := range m.topics {
		if err := refused(debezium.Partition{Topic: t.name}, -1, t.err); err != nil && r.match(t) {
			return false, err
		}
		for _, p := range t.partitions {
			seen[debezium.Partition{Topic: t.name, ID: p.id}] = known{t.id, p.leader}
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	settled, moved := true, false
	for _, p := range r.order {
		k, ok := seen[p.key]
		if !ok {
			if r.goneFor(p.key, now) >= r.source.confirm {
				return false, deleted(p.key, p.next)
			}
			settled = false
			continue
		}
		delete(r.missing, p.key)
		if k.id != "" && p.topicID != "" && k.id != p.topicID {
			return false, recreated(p.key, p.next, p.topicID, k.id)
		}
		if k.leader >= 0 && k.leader != p.leader {
			p.leader, p.retryAt, moved = k.leader, time.Time{}, true
		}
	}
	if moved {
		r.signalTaken()
	}
	return settled, nil
}

// adopt begins to read the partitions of m that are new and have a leader, from their beginning. A new topic's leader may not
// know of it yet, which is an error that passes.
func (r *Reader) adopt(ctx context.Context, m metadata) error {
	var fresh []*part
	for _, t := range m.topics {
		if !r.match(t) || t.err != codeNone {
			continue
		}
		for _, p := range t.partitions {
			key := debezium.Partition{Topic: t.name, ID: p.id}
			if !r.reads(key) && p.leader >= 0 {
				fresh = append(fresh, &part{key: key, topicID: t.id, leader: p.leader})
			}
		}
	}
	if len(fresh) == 0 {
		return nil
	}
	starts, err := r.cluster.offsets(ctx, fresh, atStart, true)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, p := range fresh {
		p.next = starts[p.key]
		r.parts[p.key] = p
		r.order = append(r.order, p)
		r.source.cfg.Log.Info("new partition", "topic", p.key.Topic, "partition", p.key.ID, "offset", p.next)
	}
	r.signalTaken()
	return nil
}

func (r *Reader) reads(key debezium.Partition) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.parts[key]
	return ok
}
