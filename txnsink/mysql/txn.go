package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"replicator/sqlgen"
	"replicator/txnsink"
)

// txn is an open transaction on its worker's session. XA START is sent before the first statement.
type txn struct {
	sink    *Sink
	id      txnsink.ID
	session *session
	begun   bool
	ending  bool  // what prepares or commits it was sent: it must not be rolled back any more
	failed  error // why only Abort may follow
	over    bool
}

// ID returns what Begin was given.
func (t *txn) ID() txnsink.ID { return t.id }

func (t *txn) xid() xid { return xidOf(t.id, t.sink.database) }

// usable says whether something may follow.
func (t *txn) usable() error {
	switch {
	case t.over:
		return fmt.Errorf("transaction %v is over", t.id)
	case t.failed != nil:
		return fmt.Errorf("transaction %v has failed and can only be rolled back: %w", t.id, t.failed)
	}
	return nil
}

// fail notes that only Abort may follow, and says what err means.
func (t *txn) fail(ctx context.Context, err error) error {
	var row *sqlgen.RowError
	if errors.As(err, &row) {
		t.failed = row
		return row
	}
	switch {
	case errors.Is(err, txnsink.ErrFenced), errors.Is(err, txnsink.ErrBusy), txnsink.Permanent(err):
	case lost(err):
		err = t.sink.explain(ctx, t.id, plain(err))
	default:
		err = plain(err)
	}
	t.failed = err
	return fmt.Errorf("transaction %v: %w", t.id, err)
}

// begin starts the transaction on the server, if it has not been started.
func (t *txn) begin(ctx context.Context) error {
	if t.begun {
		return nil
	}
	start := "XA START " + t.xid().String()
	if t.sink.config.OnePhase {
		start = "START TRANSACTION"
	}
	if err := t.session.exec(ctx, start); err != nil {
		if number(err) == errXADuplicate {
			return fmt.Errorf("%w: an XA transaction of this name is prepared or at work", txnsink.ErrBusy)
		}
		return err
	}
	t.begun = true
	return nil
}

// witness moves the witness, as the transaction's last statement. The number of a checkpoint may be that of one which an earlier
// epoch committed in one step and could not save; within an epoch it is used once.
func (t *txn) witness(ctx context.Context, note []byte) error {
	const query = `UPDATE replicator_witness SET checkpoint = ?, written = ?, note = ?, updated = UTC_TIMESTAMP(6)
WHERE pipeline = ? AND worker = ? AND epoch = ? AND checkpoint = ? AND (checkpoint < ? OR checkpoint = ? AND written < ?)`
	previous := t.sink.workers.Previous(t.id)
	if err := t.begin(ctx); err != nil {
		return err
	}
	result, err := t.session.conn.ExecContext(ctx, query, t.id.Checkpoint, t.id.Epoch, note,
		t.id.Pipeline, t.id.Worker, t.id.Epoch, previous, t.id.Checkpoint, t.id.Checkpoint, t.id.Epoch)
	if number(err) == errLockWait {
		return fmt.Errorf("the witness is locked, by a transaction in doubt or a later epoch: %w: %w", txnsink.ErrBusy, plain(err))
	}
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err != nil || n == 1 {
		return err
	}
	return t.misplaced(ctx, previous)
}

// misplaced says why the witness is not where it should be.
func (t *txn) misplaced(ctx context.Context, previous int64) error {
	const query = `SELECT epoch, checkpoint FROM replicator_witness WHERE pipeline = ? AND worker = ?`
	var epoch, checkpoint int64
	err := t.session.conn.QueryRowContext(ctx, query, t.id.Pipeline, t.id.Worker).Scan(&epoch, &checkpoint)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if epoch > t.id.Epoch {
		return fmt.Errorf("%w: epoch %d is at work", txnsink.ErrFenced, epoch)
	}
	return &serverError{text: fmt.Sprintf("the witness of worker %d is at epoch %d, checkpoint %d; the transaction follows checkpoint %d of its epoch",
		t.id.Worker, epoch, checkpoint, previous)}
}

// PreCommit writes the witness and prepares the transaction.
func (t *txn) PreCommit(ctx context.Context) error {
	if t.sink.config.OnePhase {
		return permanent("transaction %v cannot be prepared: the sink was opened for transactions of one phase", t.id)
	}
	if err := t.end(ctx, nil, "XA PREPARE "+t.xid().String()); err != nil {
		return err
	}
	if t.sink.facts.detaches {
		t.sink.release(t, t.session)
		return nil
	}
	t.sink.hold(t.id, t.session)
	t.sink.release(t, nil)
	return nil
}

// Commit writes the witness, with note, and commits the transaction.
func (t *txn) Commit(ctx context.Context, note []byte) error {
	commit := "XA COMMIT " + t.xid().String() + " ONE PHASE"
	if t.sink.config.OnePhase {
		commit = "COMMIT"
	}
	if err := t.end(ctx, note, commit); err != nil {
		return err
	}
	t.sink.workers.Committed(t.id)
	t.sink.release(t, t.session)
	return nil
}

// end writes the witness and sends what ends the transaction. With an error its outcome is not known: an XA PREPARE under FLUSH
// TABLES WITH READ LOCK answers 1205 and has rolled back, others may have prepared.
func (t *txn) end(ctx context.Context, note []byte, last string) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := t.witness(ctx, note); err != nil {
		return t.fail(ctx, err)
	}
	if !t.sink.config.OnePhase {
		if err := t.session.exec(ctx, "XA END "+t.xid().String()); err != nil {
			return t.fail(ctx, err)
		}
	}
	t.ending = true
	if err := t.session.exec(ctx, last); err != nil {
		return t.fail(ctx, err)
	}
	t.over = true
	return nil
}

// Abort rolls back what is open. After an error the session is closed too: what state it is in is not known.
func (t *txn) Abort(ctx context.Context) error {
	if t.over {
		return nil
	}
	t.over = true
	if t.rollback(ctx) && t.failed == nil {
		t.sink.release(t, t.session)
		return nil
	}
	t.session.close()
	t.sink.release(t, nil)
	return nil
}

// rollback rolls back what is open, and says whether the server did. Closing the session does the same, later.
func (t *txn) rollback(ctx context.Context) bool {
	switch {
	case !t.begun:
		return true
	case t.ending:
		return false
	case t.sink.config.OnePhase:
		return t.session.exec(ctx, "ROLLBACK") == nil
	}
	// A transaction that the server has doomed (1613, 1614, 1399) refuses to end and can be rolled back all the same.
	endErr := t.session.exec(ctx, "XA END "+t.xid().String())
	return t.session.exec(ctx, "XA ROLLBACK "+t.xid().String()) == nil && endErr == nil
}
