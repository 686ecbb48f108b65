package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator/txnsink"
)

// Fence gives the pipeline to epoch. See the package's text.
func (s *Sink) Fence(ctx context.Context, pipeline string, epoch int64, workers int) error {
	if pipeline != s.config.Pipeline {
		return permanent("this sink is of pipeline %s, not of %s", s.config.Pipeline, pipeline)
	}
	s.defining.Lock()
	defer s.defining.Unlock()
	if err := s.lookAtTopic(ctx); err != nil {
		return err
	}
	if err := s.mayFence(ctx, epoch, &workers); err != nil {
		return err
	}
	s.mu.Lock()
	gone := s.takeProducers()
	s.mu.Unlock()
	for _, p := range gone {
		p.close()
	}
	leader, err := s.raise(ctx, epoch, workers)
	if err != nil {
		return fmt.Errorf("raise the fence to epoch %d: %w", epoch, err)
	}
	known := map[int]*worker{}
	if err = s.takeOver(ctx, workers); err == nil {
		err = s.journal.view(ctx, func(st *state) error {
			if f := st.fences[pipeline]; f.Epoch != epoch {
				return fmt.Errorf("the fence is at epoch %d: %w", f.Epoch, txnsink.ErrFenced)
			}
			for i := range workers {
				w := &worker{last: st.witness(pipeline, i)}
				for n := range w.slots {
					w.slots[n] = &slot{number: n, worker: i}
				}
				known[i] = w
			}
			return nil
		})
	}
	if err != nil {
		leader.close()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.epoch, s.workers, s.leader = epoch, known, leader
	return nil
}

// mayFence looks at the fence that is there and at what is in doubt, and makes workers those that there have ever been.
func (s *Sink) mayFence(ctx context.Context, epoch int64, workers *int) error {
	return s.journal.view(ctx, func(st *state) error {
		f := st.fences[s.config.Pipeline]
		if f.Epoch > epoch {
			return fmt.Errorf("the fence is at epoch %d: %w", f.Epoch, txnsink.ErrFenced)
		}
		if f.Epoch > 0 && f.Format != s.format() {
			return permanent("the pipeline has published %s so far, and target.format is %s: give it another topic, or set the format back", f.Format, s.format())
		}
		*workers = max(*workers, f.Workers)
		list, err := st.doubts(s.config.Pipeline)
		for _, d := range list {
			if d.prepared {
				return fmt.Errorf("transaction %v is in doubt: %w", d.id, txnsink.ErrBusy)
			}
		}
		return err
	})
}

// raise writes the fence by a leader of its own.
func (s *Sink) raise(ctx context.Context, epoch int64, workers int) (*producer, error) {
	leader, err := s.newProducer(ctx, leaderName)
	if err != nil {
		return nil, err
	}
	// Again: whoever wrote one before the leader was taken over is seen now, and nobody else can write one after that.
	if err = s.mayFence(ctx, epoch, &workers); err == nil {
		err = s.write(ctx, leader, func() {
			leader.send(ctx, s.journal.record(recordKey{Kind: kindFence, Pipeline: s.config.Pipeline}, fence{epoch, workers, s.format()}))
		})
	}
	if err != nil {
		leader.close()
		return nil, err
	}
	return leader, nil
}

// Bounds of the wait for brokers that are ending a transaction.
const (
	firstWait = 5 * time.Millisecond
	lastWait  = 500 * time.Millisecond
)

// takeOver takes the transactional ids of all workers away from whoever had them, and ends what is open there.
func (s *Sink) takeOver(ctx context.Context, workers int) error {
	for i := range workers {
		for n := range slotsOfAWorker {
			id := transactionalID(s.config.Pipeline, s.address.topic, slotName(i, n))
			if err := s.takeAway(ctx, id); err != nil {
				return fmt.Errorf("take transactional id %s over: %w", id, err)
			}
		}
	}
	return nil
}

func (s *Sink) takeAway(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, requestWithin)
	defer cancel()
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		req := kmsg.NewPtrInitProducerIDRequest()
		req.TransactionalID, req.TransactionTimeoutMillis = &id, int32(s.config.Timeout.Milliseconds())
		resp, err := req.RequestWith(ctx, s.admin)
		if err == nil {
			err = kerr.ErrorForCode(resp.ErrorCode)
		}
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return plainError(err)
		}
		if err := pause(ctx, wait); err != nil {
			return fmt.Errorf("the brokers are still ending its transaction: %w", txnsink.ErrBusy)
		}
	}
}
