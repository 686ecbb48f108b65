package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"replicator/txnsink"
)

const (
	// Bounds of the wait for a prepared transaction that another session still holds or is just deciding.
	busyInterval = 20 * time.Millisecond
	busyTries    = 250
	// killAfter is after how many tries the session that holds it is ended: its process is gone without a word.
	killAfter = 50
)

// Commit commits a prepared transaction.
func (s *Sink) Commit(ctx context.Context, id txnsink.ID) error {
	if err := s.decide(ctx, id, "XA COMMIT"); err != nil {
		if !errors.Is(err, errGone) {
			return fmt.Errorf("commit %v: %w", id, err)
		}
		if err := s.witnessed(ctx, id); err != nil {
			return fmt.Errorf("commit %v: it is not prepared: %w", id, err)
		}
	}
	s.advance(id)
	return nil
}

// Abort rolls a prepared transaction back.
func (s *Sink) Abort(ctx context.Context, id txnsink.ID) error {
	if err := s.decide(ctx, id, "XA ROLLBACK"); err != nil && !errors.Is(err, errGone) {
		return fmt.Errorf("roll back %v: %w", id, err)
	}
	return nil
}

// errGone is decide's answer for a transaction that is not prepared.
var errGone = errors.New("not prepared")

// decide runs XA COMMIT or XA ROLLBACK. While another session holds the transaction or decides it, it is tried again.
func (s *Sink) decide(ctx context.Context, id txnsink.ID, verb string) error {
	if id.Pipeline != s.config.Pipeline {
		return permanent("this sink is of pipeline %s", s.config.Pipeline)
	}
	tick := time.NewTicker(busyInterval)
	defer tick.Stop()
	x := xidOf(id, s.database)
	for try := 1; ; try++ {
		_, err := s.control.ExecContext(ctx, verb+" "+x.String())
		switch number(err) {
		case errXARolledBack, errXARollbackTimeout, errXARollbackLock:
			return errGone
		case errXAUnknown, errXAState:
		case errLockWait:
			return fmt.Errorf("%w: %w", txnsink.ErrBusy, plain(err))
		default:
			if err != nil {
				return plain(err)
			}
			return nil
		}
		listed, err := s.recover(ctx)
		if err != nil {
			return plain(err)
		}
		if !slices.Contains(listed, x) {
			return errGone
		}
		switch try {
		case killAfter:
			if _, err := s.killWorkers(ctx, []int{id.Worker}); err != nil {
				return plain(err)
			}
		case busyTries:
			return fmt.Errorf("another session has held it or been deciding it for %v: %w", busyTries*busyInterval, txnsink.ErrBusy)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// recover lists the prepared transactions of the whole server whose format is ours.
func (s *Sink) recover(ctx context.Context) (out []xid, err error) {
	rows, err := s.control.QueryContext(ctx, "XA RECOVER")
	if err != nil {
		if number(err) == errXARecover {
			return nil, permanent("the target's user may not list prepared transactions: GRANT XA_RECOVER_ADMIN ON *.* TO it, %s", adviceOnePhase)
		}
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var format, gtrid, bqual int
		var data []byte
		if err := rows.Scan(&format, &gtrid, &bqual, &data); err != nil {
			return nil, err
		}
		if format == 1 && gtrid >= 0 && bqual >= 0 && gtrid+bqual == len(data) {
			out = append(out, xid{string(data[:gtrid]), string(data[gtrid:])})
		}
	}
	return out, rows.Err()
}

// witnessed returns nil if the transaction, which is not prepared, was committed. A worker's commits have rising checkpoints, and
// a checkpoint is committed by one epoch: so a witness beyond the transaction's checkpoint passed it, and one at
// its checkpoint must be of its epoch. What does not look committed is looked at again with a lock, which a transaction
// holds until its rows can be seen.
func (s *Sink) witnessed(ctx context.Context, id txnsink.ID) error {
	const query = `SELECT checkpoint, written FROM replicator_witness WHERE pipeline = ? AND worker = ?`
	var checkpoint, written int64
	for _, lock := range []string{"", " FOR UPDATE"} {
		err := s.control.QueryRowContext(ctx, query+lock, id.Pipeline, id.Worker).Scan(&checkpoint, &written)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return fmt.Errorf("worker %d has no witness: %w", id.Worker, txnsink.ErrLost)
		case number(err) == errLockWait:
			return fmt.Errorf("its witness is locked: %w: %w", txnsink.ErrBusy, plain(err))
		case err != nil:
			return plain(err)
		case checkpoint > id.Checkpoint, checkpoint == id.Checkpoint && written == id.Epoch:
			return nil
		}
	}
	return fmt.Errorf("the witness is at checkpoint %d of epoch %d: %w", checkpoint, written, txnsink.ErrLost)
}

// Pending lists the pipeline's prepared transactions in this database. The servers do not say when one was prepared: its
// witness does, which can be read before it is committed. An age of 0 is not known.
func (s *Sink) Pending(ctx context.Context, pipeline string) ([]txnsink.Prepared, error) {
	var out []txnsink.Prepared
	listed, err := s.recover(ctx)
	if err == nil {
		for _, x := range listed {
			if id, ok := x.id(s.database); ok && id.Pipeline == pipeline {
				out = append(out, txnsink.Prepared{ID: id})
			}
		}
	}
	if err == nil && len(out) > 0 {
		err = s.ages(ctx, pipeline, out)
	}
	if err != nil {
		return nil, fmt.Errorf("list prepared transactions of pipeline %s: %w", pipeline, plain(err))
	}
	return out, nil
}

// ages sets the ages of prepared transactions of a pipeline.
func (s *Sink) ages(ctx context.Context, pipeline string, list []txnsink.Prepared) (err error) {
	const query = `SELECT worker, checkpoint, written, GREATEST(TIMESTAMPDIFF(MICROSECOND, updated, UTC_TIMESTAMP(6)), 0) / 1e6
FROM replicator_witness WHERE pipeline = ?`
	tx, err := s.control.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadUncommitted, ReadOnly: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, tx.Rollback()) }()
	rows, err := tx.QueryContext(ctx, query, pipeline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id txnsink.ID
		var age float64
		if err := rows.Scan(&id.Worker, &id.Checkpoint, &id.Epoch, &age); err != nil {
			return err
		}
		id.Pipeline = pipeline
		if i := slices.IndexFunc(list, func(p txnsink.Prepared) bool { return p.ID == id }); i >= 0 {
			list[i].AgeSeconds = age
		}
	}
	return rows.Err()
}

// Notes returns the pipeline's witnesses.
func (s *Sink) Notes(ctx context.Context, pipeline string) (out []txnsink.Note, err error) {
	const query = `SELECT worker, epoch, checkpoint, note FROM replicator_witness WHERE pipeline = ? ORDER BY worker`
	rows, err := s.control.QueryContext(ctx, query, pipeline)
	if err != nil {
		return nil, fmt.Errorf("read the witnesses of pipeline %s: %w", pipeline, plain(err))
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var n txnsink.Note
		if err := rows.Scan(&n.Worker, &n.Epoch, &n.Checkpoint, &n.Text); err != nil {
			return nil, fmt.Errorf("read the witnesses of pipeline %s: %w", pipeline, plain(err))
		}
		out = append(out, n)
	}
	return out, rows.Err()
}
