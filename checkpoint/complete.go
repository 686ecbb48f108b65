package checkpoint

import (
	"context"
	"fmt"
	"time"

	"replicator/debezium"
	"replicator/txnsink"
)

// OldTransaction is the age from which a prepared transaction is worth a warning: while it is in doubt it holds locks and
// stops vacuum.
const OldTransaction = time.Minute

// sweepEvery is how often a running pipeline looks for transactions of earlier epochs that turned up after recovery.
const sweepEvery = 30 * time.Second

// barrier passes from the router through every lane and gathers their transactions.
type barrier struct {
	id        int64
	positions debezium.Positions
	seen      []Seen
	ahead     []Ahead
	rows      int64
	savepoint bool
	lanes     int
	told      Completed
	letters   []*txnsink.Letter // to be copied
	passed    chan passed       // with room for every lane
	committed chan struct{}     // closed when the transactions are: lanes may begin new ones
}

// passed is what a lane adds to a barrier.
type passed struct {
	txn  txnsink.Txn // nil: it has none
	took time.Duration
}

// collect waits until the barrier has passed every lane.
func (b *barrier) collect(ctx context.Context) ([]txnsink.Txn, error) {
	var txns []txnsink.Txn
	for range b.lanes {
		select {
		case <-ctx.Done():
			return txns, ctx.Err()
		case p := <-b.passed:
			if p.txn != nil {
				txns = append(txns, p.txn)
			}
			b.told.Phases.Apply = max(b.told.Phases.Apply, p.took)
		}
	}
	return txns, nil
}

// committer completes one checkpoint after the other (invariant 4). It never waits for a lane's apply once the
// barrier has passed: an apply may itself be waiting for a row that the outstanding transaction holds. While it runs
// it owns run.last.
type committer struct{ *run }

func (c *committer) loop(ctx context.Context, cuts <-chan *barrier, saved chan<- Checkpoint) error {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-sweep.C:
			if err := c.sweep(ctx); err != nil {
				return err
			}
		case b := <-cuts:
			if err := c.complete(ctx, b); err != nil {
				return err
			}
			if err := send(ctx, saved, c.last); err != nil {
				return err
			}
		}
	}
}

// complete carries the protocol out for one barrier.
func (c *committer) complete(ctx context.Context, b *barrier) error {
	txns, err := b.collect(ctx)
	took := &b.told.Phases
	took.Align = time.Since(b.told.Cut)
	prepare := timed(&took.Prepare, func() error {
		err := each(txns, func(t txnsink.Txn) error { return t.PreCommit(ctx) })
		c.tellDoubts(txns)
		return err
	})
	commit := func() error { return each(txns, func(t txnsink.Txn) error { return t.Commit(ctx, nil) }) }
	commitWithPositions := func() error {
		text, err := encodeNote(note{Workers: c.Workers, Positions: listOf(b.positions)})
		if err != nil {
			return err
		}
		return each(txns, func(t txnsink.Txn) error { return t.Commit(ctx, text) })
	}
	save := timed(&took.Save, func() error { return c.save(ctx, b, txns) })
	commitPrepared := func() error {
		return each(c.last.Txns, func(id txnsink.ID) error {
			if err := c.Sink.Commit(ctx, id); err != nil {
				return lost(id, err)
			}
			return nil
		})
	}
	applyLog := func() error { return c.applyLogged(ctx, false) }
	pruneLog := func() error { return c.WriteAhead.Prune(ctx, c.Pipeline, c.last.Epoch, c.last.ID) }
	if err == nil && len(b.letters) > 0 {
		err = c.LetterTopic.Copy(ctx, c.Pipeline, b.letters)
	}
	if err == nil {
		switch c.Delivery {
		case TwoPhase:
			err = inOrder(prepare, save, timed(&took.Commit, commitPrepared)) // invariant 3
		case OnePhase:
			err = inOrder(timed(&took.Commit, commitWithPositions), save) // invariant 10
		case WriteAhead:
			err = inOrder(prepare, save, timed(&took.Commit, func() error { return inOrder(applyLog, pruneLog) })) // invariant 3: in the log, every transaction is prepared
		case AtLeastOnce:
			err = inOrder(timed(&took.Commit, commit), save)
		case AtMostOnce:
			err = inOrder(save, timed(&took.Commit, commit))
		}
	}
	if err == nil {
		close(b.committed) // invariant 14
		c.progressed = true
		b.told.Checkpoint = c.last
		c.Observe(b.told)
		c.tellDoubts(nil)
		return nil
	}
	for _, t := range txns {
		if aerr := abort(ctx, t); aerr != nil { // nothing that may be prepared: invariant 5
			c.Log.Debug("abort after a failure", "error", aerr)
		}
	}
	return err
}

// tellDoubts tells that txns are prepared, in a delivery where that leaves them in doubt.
func (c *committer) tellDoubts(txns []txnsink.Txn) {
	if c.Delivery != TwoPhase {
		return
	}
	var list []Doubt
	for _, t := range txns {
		list = append(list, Doubt{t.ID(), time.Now()})
	}
	c.Observe(InDoubt{list})
}

// timed notes how long step takes.
func timed(took *time.Duration, step func() error) func() error {
	return func() error {
		began := time.Now()
		defer func() { *took = time.Since(began) }()
		return step()
	}
}

// save saves the barrier's positions, and the transactions where their commit is still to come.
func (c *committer) save(ctx context.Context, b *barrier, txns []txnsink.Txn) error {
	cp := Checkpoint{
		Pipeline: c.Pipeline, Epoch: c.last.Epoch, ID: b.id,
		Positions: b.positions, Seen: b.seen, Ahead: b.ahead, Rows: b.rows, Savepoint: b.savepoint, Created: time.Now().UTC(),
	}
	for _, t := range txns {
		logged, isLogged := t.(*loggedTxn)
		if isLogged {
			cp.Parts = append(cp.Parts, logged.parts)
		}
		if isLogged || c.Delivery == TwoPhase {
			cp.Txns = append(cp.Txns, t.ID())
		}
	}
	if err := c.Store.Save(ctx, cp, c.Retain); err != nil {
		return fmt.Errorf("save checkpoint %d to checkpoint.store: %w", cp.ID, err)
	}
	c.last = cp
	return nil
}

// sweep aborts what a fenced process managed to prepare.
func (c *committer) sweep(ctx context.Context) error {
	pending, err := c.Sink.Pending(ctx, c.Pipeline)
	if err != nil {
		return fmt.Errorf("list transactions in doubt: %w", err)
	}
	c.Observe(InDoubt{doubts(pending)})
	for _, p := range pending {
		if p.AgeSeconds > OldTransaction.Seconds() {
			c.Log.Warn("a prepared transaction is old: it holds locks and keeps vacuum from removing dead rows",
				"transaction", p.ID.String(), "age", time.Duration(p.AgeSeconds*float64(time.Second)).Round(time.Second))
		}
		switch {
		case p.ID.Epoch > c.last.Epoch:
			return fmt.Errorf("transaction %v is of a later run: %w", p.ID, txnsink.ErrFenced)
		case p.ID.Epoch < c.last.Epoch:
			if err := c.Sink.Abort(ctx, p.ID); err != nil {
				return fmt.Errorf("abort %v: %w", p.ID, err)
			}
			c.Log.Warn("rolled back a transaction that a fenced run had prepared", "transaction", p.ID.String())
		}
	}
	c.Observe(InDoubt{})
	return nil
}

// inOrder runs steps until one fails.
func inOrder(steps ...func() error) error {
	return each(steps, func(step func() error) error { return step() })
}

func each[T any](list []T, do func(T) error) error {
	for _, v := range list {
		if err := do(v); err != nil {
			return err
		}
	}
	return nil
}
