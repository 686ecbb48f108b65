package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"replicator/debezium"
	"replicator/txnsink"
)

// Bounds of the wait for an earlier epoch's transactions and sessions to be gone.
const (
	fenceBackoff = 50 * time.Millisecond
	fenceTries   = 100
)

// recover takes the pipeline over: a new epoch (no other process can save from here on), every transaction in doubt
// decided by the last checkpoint, the sink fenced. It returns with r.last as the place to go on from, and the reader
// open there. It does the same after a clean stop, a crash and a lost connection.
func (r *run) recover(ctx context.Context) (Reader, error) {
	began := time.Now()
	last, err := r.Store.Acquire(ctx, r.Pipeline)
	if err != nil {
		return nil, fmt.Errorf("acquire pipeline %s in checkpoint.store: %w", r.Pipeline, err)
	}
	if err := r.mayRecover(&last); err != nil {
		return nil, err
	}
	r.last = last
	if err := r.decideAndFence(ctx); err != nil {
		return nil, err
	}
	ahead, highest, err := r.lanesAhead(ctx)
	if err != nil {
		return nil, err
	}
	from, seen := last.Positions, last.Seen
	if r.From != 0 {
		c, err := r.Store.Load(ctx, r.Pipeline, r.From)
		if err != nil {
			return nil, permanent(fmt.Errorf("replay from checkpoint %d of pipeline %s: %w", r.From, r.Pipeline, err))
		}
		if err := r.mayReplay(ctx, c.ID); err != nil {
			return nil, err
		}
		from, seen, ahead = c.Positions, c.Seen, nil // a replay applies again what lanes have applied
	}
	switch {
	case last.ID == 0 && r.origin != nil:
		from, seen, ahead = r.origin.Positions, r.origin.Seen, r.origin.Ahead
	case last.ID == 0:
		from = nil // a first start: the source's start policy decides
	case from == nil:
		from = debezium.Positions{} // a checkpoint of no partitions: all that there are now are new
	}
	reader, err := r.Source.Open(ctx, from)
	if err != nil {
		return nil, fmt.Errorf("open source: %w", err)
	}
	positions := merge(from, reader.Start())
	if last.ID == 0 || r.From != 0 || highest > 0 {
		// Where to begin is a decision too: without it a crash before the first cut would begin elsewhere. And the next
		// commits overwrite the notes that say which lanes are ahead.
		r.last.ID = max(r.last.ID, highest)
		if err := r.save(ctx, Checkpoint{Positions: positions, Seen: seen, Ahead: ahead}); err != nil {
			return nil, errors.Join(err, reader.Close())
		}
	} else {
		r.last.Positions = positions
	}
	r.decided = true
	r.Observe(InDoubt{})
	r.Observe(Recovered{
		Epoch: r.last.Epoch, Checkpoint: r.last.ID, Positions: r.last.Positions.Clone(),
		Committed: r.committed, RolledBack: r.rolledBack, Took: time.Since(began),
	})
	r.Log.Info("running", "pipeline", r.Pipeline, "epoch", r.last.Epoch, "checkpoint", r.last.ID, "partitions", len(r.last.Positions))
	return reader, nil
}

// mayReplay refuses to begin before what the target holds, where that would repeat rows.
func (r *run) mayReplay(ctx context.Context, from int64) error {
	if r.Replay || r.Delivery == AtLeastOnce || r.Delivery == AtMostOnce {
		return nil
	}
	list, err := r.Store.List(ctx, r.Pipeline)
	if err != nil {
		return fmt.Errorf("replay from checkpoint %d of pipeline %s: %w", from, r.Pipeline, err)
	}
	after, rows := int64(0), int64(0)
	for _, c := range list {
		if c.ID > from {
			after, rows = after+1, rows+c.Rows
		}
	}
	if rows == 0 && after == r.last.ID-from {
		return nil // nothing was applied since
	}
	return permanent(fmt.Errorf("replay from checkpoint %d of pipeline %s: the target is at checkpoint %d, so rows of tables without a key would be there twice: "+
		"if every table has a key, so that its rows converge, or the tables were emptied, say so by --replay", from, r.Pipeline, r.last.ID))
}

// merge returns the positions of a checkpoint and of partitions that appeared after it.
func merge(saved, start debezium.Positions) debezium.Positions {
	out := start.Clone()
	for p, pos := range saved {
		out[p] = pos
	}
	return out
}

// decideAndFence upholds invariants 2 and 6. What is in doubt must be decided before the fence can pass, because a
// prepared transaction holds its witness row; and again after it, because one may have been prepared in between.
func (r *run) decideAndFence(ctx context.Context) error {
	var busy error
	for range fenceTries {
		if _, err := r.decide(ctx); err != nil {
			return err
		}
		err := r.Sink.Fence(ctx, r.Pipeline, r.last.Epoch, r.fenced())
		if err == nil {
			n, err := r.decide(ctx)
			if err != nil {
				return err
			}
			if n == 0 {
				return r.emptyLog(ctx)
			}
			continue
		}
		if !errors.Is(err, txnsink.ErrBusy) {
			return fmt.Errorf("fence epoch %d of pipeline %s: %w", r.last.Epoch, r.Pipeline, err)
		}
		busy = err
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(fenceBackoff):
		}
	}
	return fmt.Errorf("fence epoch %d of pipeline %s: an earlier run still holds its transactions: %w", r.last.Epoch, r.Pipeline, busy)
}

// fenced is how many workers the run needs: its own, and those whose transactions it takes from the log.
func (r *run) fenced() int {
	n := r.Workers
	if r.last.Parts != nil {
		for _, id := range r.last.Txns {
			n = max(n, id.Worker+1)
		}
	}
	return n
}

// emptyLog applies what the last checkpoint lists of the log. The rest of what earlier epochs wrote there no checkpoint
// lists: it is as if it had never been.
func (r *run) emptyLog(ctx context.Context) error {
	if r.last.Parts == nil && r.Delivery != WriteAhead {
		return nil
	}
	if r.WriteAhead == nil {
		return permanent(fmt.Errorf("checkpoint %d of pipeline %s has its statements in a log, which the present checkpoint.store does not keep", r.last.ID, r.Pipeline))
	}
	if r.last.Parts != nil {
		err := r.applyLogged(ctx, true)
		if r.From != 0 && errors.Is(err, txnsink.ErrLost) {
			r.Log.Warn("replaying although a part of the log is lost", "error", err, "from", r.From)
			err = nil
		}
		if err != nil {
			return err
		}
	}
	if err := r.WriteAhead.Prune(ctx, r.Pipeline, r.last.Epoch, 0); err != nil {
		return fmt.Errorf("prune the log of pipeline %s in checkpoint.store: %w", r.Pipeline, err)
	}
	return nil
}

// decide commits the last checkpoint's transactions and aborts all others of earlier epochs. It returns how many
// were in doubt.
func (r *run) decide(ctx context.Context) (int, error) {
	pending, err := r.Sink.Pending(ctx, r.Pipeline)
	if err != nil {
		return 0, fmt.Errorf("list transactions in doubt: %w", err)
	}
	r.Observe(InDoubt{doubts(pending)})
	var prepared []txnsink.ID
	if r.last.Parts == nil { // else they are in the log
		prepared = r.last.Txns
	}
	commit := make(map[txnsink.ID]bool, len(prepared))
	for _, id := range prepared {
		commit[id] = true
		err := r.Sink.Commit(ctx, id)
		if r.From != 0 && errors.Is(err, txnsink.ErrLost) {
			r.Log.Warn("replaying although a committed checkpoint's transaction is lost", "transaction", id.String(), "from", r.From)
			continue
		}
		if err != nil {
			return 0, lost(id, err)
		}
	}
	for _, p := range pending {
		if commit[p.ID] {
			r.committed++
			r.Log.Info("committed a transaction in doubt: its checkpoint was saved", "transaction", p.ID.String())
			continue
		}
		if p.ID.Epoch >= r.last.Epoch {
			return 0, fmt.Errorf("transaction %v is of a later run: %w", p.ID, txnsink.ErrFenced)
		}
		if err := r.Sink.Abort(ctx, p.ID); err != nil {
			return 0, fmt.Errorf("abort %v: %w", p.ID, err)
		}
		r.rolledBack++
		r.Log.Info("rolled back a transaction in doubt: its checkpoint was not saved", "transaction", p.ID.String())
	}
	return len(pending), nil
}

// lost says which commit failed, and for ErrLost (invariant 8) what the operator can do.
func lost(id txnsink.ID, err error) error {
	if !errors.Is(err, txnsink.ErrLost) {
		return fmt.Errorf("commit %v: %w", id, err)
	}
	return fmt.Errorf("commit %v: %w: its checkpoint was saved, but the transaction was rolled back by somebody or lost by the database, "+
		"so its rows are missing; find out why, then replay from the checkpoint before: run --from %d --replay", id, err, id.Checkpoint-1)
}

// save saves c as the checkpoint after r.last (invariant 7) and makes it r.last.
func (r *run) save(ctx context.Context, c Checkpoint) error {
	c.Pipeline, c.Epoch, c.ID, c.Created = r.Pipeline, r.last.Epoch, r.last.ID+1, time.Now().UTC()
	if err := r.Store.Save(ctx, c, r.Retain); err != nil {
		return fmt.Errorf("save checkpoint %d to checkpoint.store: %w", c.ID, err)
	}
	r.last = c
	return nil
}

// permanentError is an error that will come again.
type permanentError struct{ error }

func (permanentError) Permanent() bool   { return true }
func (e permanentError) Unwrap() error   { return e.error }
func permanent(err error) permanentError { return permanentError{err} }
