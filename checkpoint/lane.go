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

// batches is how many batches a lane has: one is folded while another is applied.
const batches = 2

// lane folds events in one goroutine, and applies what was folded to the one open transaction that it owns in another.
type lane struct {
	*run
	worker int
	epoch  int64
	in     chan work
	folded chan folded
	free   chan *sqlgen.Batch

	// Of fold:
	batch *sqlgen.Batch // nil: none is free yet

	// Of apply:
	txn   txnsink.Txn     // open; nil: nothing was applied since the last barrier
	next  int64           // the checkpoint that txn belongs to
	ready <-chan struct{} // closed when the checkpoint before is committed; nil: there was none
}

// folded is one message from a lane's fold to its apply: statements, with the batch whose memory they share, then
// perhaps a barrier.
type folded struct {
	batch      *sqlgen.Batch // nil: there are no statements
	statements []sqlgen.Statement
	barrier    *barrier
}

func newLane(r *run, worker int) *lane {
	l := &lane{
		run: r, worker: worker, epoch: r.last.Epoch, next: r.last.ID + 1,
		in: make(chan work, 1), folded: make(chan folded), free: make(chan *sqlgen.Batch, batches),
	}
	for range batches {
		l.free <- sqlgen.NewBatch(r.Sink.Dialect())
	}
	return l
}

// fold takes the router's work.
func (l *lane) fold(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case w := <-l.in:
			if err := l.take(ctx, w); err != nil {
				return err
			}
		}
	}
}

func (l *lane) take(ctx context.Context, w work) error {
	if l.batch == nil && len(w.items) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case l.batch = <-l.free:
		}
	}
	for _, it := range w.items {
		if err := l.batch.Add(it.target, it.event); err != nil {
			return err
		}
	}
	if !w.flush && w.barrier == nil {
		return nil
	}
	f := folded{barrier: w.barrier}
	if l.batch != nil {
		f.batch, f.statements = l.batch, l.batch.Statements()
		l.batch = nil
	}
	return send(ctx, l.folded, f)
}

// apply writes what was folded.
func (l *lane) apply(ctx context.Context) (err error) {
	defer func() {
		if l.txn != nil {
			err = errors.Join(err, abort(ctx, l.txn))
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case f := <-l.folded:
			if err := l.write(ctx, f); err != nil {
				return err
			}
		}
	}
}

func (l *lane) write(ctx context.Context, f folded) error {
	if len(f.statements) > 0 {
		if err := l.begin(ctx); err != nil {
			return err
		}
		if err := l.txn.Apply(ctx, f.statements); err != nil {
			return err
		}
	}
	if f.batch != nil {
		f.batch.Reset()
		l.free <- f.batch // never blocks: it has room for every batch
	}
	if f.barrier == nil {
		return nil
	}
	txn := l.txn
	l.txn = nil
	l.next, l.ready = f.barrier.id+1, f.barrier.committed
	f.barrier.txns <- txn // never blocks: it has room for every lane
	return nil
}

// begin opens the transaction if there is none: a checkpoint without rows has no transaction.
func (l *lane) begin(ctx context.Context) error {
	if l.txn != nil {
		return nil
	}
	if l.ready != nil { // invariant 14
		select {
		case <-l.ready:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	id := txnsink.ID{Pipeline: l.Pipeline, Epoch: l.epoch, Checkpoint: l.next, Worker: l.worker}
	if l.Delivery == WriteAhead {
		l.txn = &loggedTxn{run: l.run, id: id}
		return nil
	}
	txn, err := l.Sink.Begin(ctx, id)
	if err != nil {
		return err
	}
	l.txn = txn
	return nil
}

// abort rolls back what was not prepared, also when the run is ending.
func abort(ctx context.Context, txn txnsink.Txn) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
	defer cancel()
	return txn.Abort(ctx)
}
