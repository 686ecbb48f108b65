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

// settleWithin bounds the wait for the marker of a transaction that the brokers have agreed to end.
const settleWithin = time.Minute

// Commit commits a prepared transaction.
func (s *Sink) Commit(ctx context.Context, id txnsink.ID) error {
	found, err := s.decide(ctx, id, true)
	if err != nil {
		return fmt.Errorf("commit %v: %w", id, err)
	}
	if found.Checkpoint < id.Checkpoint || found.Checkpoint == id.Checkpoint && found.Epoch != id.Epoch {
		return fmt.Errorf("commit %v: it is not prepared, and the witness is at checkpoint %d of epoch %d: "+
			"it was rolled back by somebody, or by the brokers when transaction_timeout was over: %w", id, found.Checkpoint, found.Epoch, txnsink.ErrLost)
	}
	s.advance(id)
	return nil
}

// Abort rolls a prepared transaction back.
func (s *Sink) Abort(ctx context.Context, id txnsink.ID) error {
	if _, err := s.decide(ctx, id, false); err != nil {
		return fmt.Errorf("abort %v: %w", id, err)
	}
	return nil
}

// decide ends a transaction if it is in doubt, waits until it is not, and returns the worker's witness. What the control topic says
// counts, whatever the brokers have answered.
func (s *Sink) decide(ctx context.Context, id txnsink.ID, commit bool) (witness, error) {
	if err := s.usable(ctx); err != nil {
		return witness{}, err
	}
	slot, asked := s.endHeld(ctx, id, commit)
	found, err := s.settle(ctx, id, func(d doubt) error {
		if asked {
			asked = false // its marker is on its way
			return nil
		}
		return s.endTxn(ctx, d, commit)
	})
	if slot != nil {
		s.letGo(id, slot, err != nil)
	}
	return found, err
}

func (s *Sink) usable(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosed
	}
	return ctx.Err()
}

// endHeld ends a transaction that this sink has prepared, by the producer that has prepared it, so that this one can go on. It returns
// the slot, nil if there is none, and whether the brokers have agreed.
func (s *Sink) endHeld(ctx context.Context, id txnsink.ID, commit bool) (*slot, bool) {
	s.mu.Lock()
	slot := s.held[id]
	delete(s.held, id)
	s.mu.Unlock()
	if slot == nil || slot.producer == nil {
		return slot, false
	}
	if err := slot.producer.end(ctx, commit); err != nil {
		s.config.Log.Debug("a producer could not end its transaction; it is ended without", "transaction", id.String(), "error", err)
		slot.producer.close()
		slot.producer = nil
		return slot, false
	}
	return slot, true
}

// letGo gives a slot back to its worker, or holds it on.
func (s *Sink) letGo(id txnsink.ID, slot *slot, inDoubt bool) {
	s.mu.Lock()
	current := s.workers[slot.worker] != nil && s.workers[slot.worker].slots[slot.number] == slot && !s.closed
	if current && inDoubt {
		s.held[id] = slot
	} else if current {
		slot.busy = false
	}
	s.mu.Unlock()
	if !current && slot.producer != nil {
		slot.producer.close()
	}
}

// settle waits until a transaction is not in doubt, asking for its end again and again, and returns its worker's witness.
func (s *Sink) settle(ctx context.Context, id txnsink.ID, end func(doubt) error) (witness, error) {
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		var found witness
		var open *doubt
		err := s.journal.view(ctx, func(st *state) error {
			found = st.witness(id.Pipeline, id.Worker)
			list, err := st.doubts(id.Pipeline)
			for i := range list {
				if list[i].id == id {
					open = &list[i]
				}
			}
			return err
		})
		if err != nil || open == nil {
			return found, err
		}
		if err := end(*open); err != nil {
			return found, err
		}
		if err := pause(ctx, wait); err != nil {
			return found, fmt.Errorf("the brokers do not end the transaction: %w", err)
		}
	}
}

// endTxn asks the brokers to end somebody's transaction. Where they have ended it, or are about to, the control topic tells how.
func (s *Sink) endTxn(ctx context.Context, d doubt, commit bool) error {
	req := kmsg.NewPtrEndTxnRequest()
	req.TransactionalID = transactionalID(d.id.Pipeline, s.address.topic, slotName(d.id.Worker, d.slot))
	req.ProducerID, req.ProducerEpoch, req.Commit = d.producer, d.producerEpoch, commit
	resp, err := req.RequestWith(ctx, s.admin)
	if err == nil {
		err = kerr.ErrorForCode(resp.ErrorCode)
	}
	if err == nil || errors.Is(err, kerr.ConcurrentTransactions) || taken(err) {
		return nil
	}
	return plainError(err)
}
