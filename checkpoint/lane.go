package checkpoint

import (
	"context"
	"errors"
	"time"

	"replicator/debezium"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// abortWithin bounds the roll-back of a transaction that was not prepared, when a run ends.
const abortWithin = 5 * time.Second

// work is one message from the router to a lane: items to fold, then perhaps a flush, then perhaps a barrier.
type work struct {
	items   []item
	flush   bool
	barrier *barrier
}

// item is one row event and the table that it goes to.
type item struct {
	target *sqlgen.Target
	event  *debezium.Event
}

// lane folds events and applies them to the one open transaction that it owns.
type lane struct {
	*run
	worker int
	epoch  int64
	in     chan work

	batch *sqlgen.Batch
	txn   txnsink.Txn     // open; nil: nothing was applied since the last barrier
	next  int64           // the checkpoint that txn belongs to
	ended <-chan struct{} // closed when the transaction before is prepared or committed; nil: there was none
}

func newLane(r *run, worker int) *lane {
	return &lane{
		run: r, worker: worker, epoch: r.last.Epoch, next: r.last.ID + 1,
		in: make(chan work, 1), batch: sqlgen.NewBatch(r.Sink.Dialect()),
	}
}

func (l *lane) loop(ctx context.Context) (err error) {
	defer func() {
		if l.txn != nil {
			err = errors.Join(err, abort(ctx, l.txn))
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case w := <-l.in:
			if err := l.do(ctx, w); err != nil {
				return err
			}
		}
	}
}

func (l *lane) do(ctx context.Context, w work) error {
	for _, it := range w.items {
		if err := l.batch.Add(it.target, it.event); err != nil {
			return err
		}
	}
	if w.flush || w.barrier != nil {
		if err := l.apply(ctx); err != nil {
			return err
		}
	}
	if w.barrier == nil {
		return nil
	}
	txn := l.txn
	l.txn = nil
	l.next, l.ended = w.barrier.id+1, w.barrier.ended
	w.barrier.txns <- txn // never blocks: it has room for every lane
	return nil
}

// apply writes what was folded to the open transaction, which it begins first if there is none: a checkpoint without
// rows has no transaction.
func (l *lane) apply(ctx context.Context) error {
	defer l.batch.Reset() // the statements share its memory
	statements := l.batch.Statements()
	if len(statements) == 0 {
		return nil
	}
	if l.txn == nil {
		if l.ended != nil { // a worker has one open transaction at a time
			select {
			case <-l.ended:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		id := txnsink.ID{Pipeline: l.Pipeline, Epoch: l.epoch, Checkpoint: l.next, Worker: l.worker}
		if l.Delivery == WriteAhead {
			l.txn = &loggedTxn{run: l.run, id: id}
		} else {
			txn, err := l.Sink.Begin(ctx, id)
			if err != nil {
				return err
			}
			l.txn = txn
		}
	}
	return l.txn.Apply(ctx, statements)
}

// abort rolls back what was not prepared, also when the run is ending.
func abort(ctx context.Context, txn txnsink.Txn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
	defer cancel()
	return txn.Abort(ctx)
}
