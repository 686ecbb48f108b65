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
	// settleTime is what MariaDB gets between the end of a session and the decision of what it had prepared.
	settleTime = 200 * time.Millisecond
)

// Where a session does not let go of what it has prepared, it is kept and decides it itself. Another session can decide it only
// after that one has ended, and on MariaDB not at once: the server first lists the transaction as one that anybody may decide, and
// then takes it from the session. XA COMMIT between the two answers that it has committed, and has not: the
// transaction is listed no more, and holds its rows until the server is restarted, which lists it again (seen in 20 of
// 10,000 tries under load). So the session's end is waited for, then a little more, and the answer is compared
// with the witness.

// Commit commits a prepared transaction.
func (s *Sink) Commit(ctx context.Context, id txnsink.ID) error {
	err := s.decide(ctx, id, "XA COMMIT")
	if errors.Is(err, errGone) {
		if err := s.witnessed(ctx, id); err != nil {
			return fmt.Errorf("commit %v: it is not prepared: %w", id, err)
		}
		err = nil
	}
	if err != nil {
		return fmt.Errorf("commit %v: %w", id, err)
	}
	s.workers.Committed(id)
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

// decide runs XA COMMIT or XA ROLLBACK.
func (s *Sink) decide(ctx context.Context, id txnsink.ID, verb string) error {
	if id.Pipeline != s.config.Pipeline {
		return permanent("this sink is of pipeline %s", s.config.Pipeline)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	sql := verb + " " + xidOf(id, s.database).String()
	if session := s.takeHeld(id); session != nil {
		err := session.exec(ctx, sql)
		switch {
		case err == nil:
			s.park(id, session)
			return nil
		case number(err) == errLockWait, number(err) == errReadOnlyOption:
			s.hold(id, session)
			return fmt.Errorf("%w: %w", txnsink.ErrBusy, plain(err))
		}
		session.close()
		if ctx.Err() != nil {
			return plain(err)
		}
	}
	return s.decideAnywhere(ctx, id, sql, verb == "XA COMMIT")
}

// decideAnywhere decides a transaction that no session of this sink holds. While another session holds it or decides it, it is tried
// again.
func (s *Sink) decideAnywhere(ctx context.Context, id txnsink.ID, sql string, commit bool) error {
	tick := time.NewTicker(busyInterval)
	defer tick.Stop()
	for try := 1; ; try++ {
		if s.facts.detaches {
			if done, err := s.tryDecide(ctx, id, sql, commit); done || err != nil {
				return err
			}
		}
		listed, err := s.recover(ctx)
		if err != nil {
			return plain(err)
		}
		if !slices.Contains(listed, xidOf(id, s.database)) {
			return errGone
		}
		if !s.facts.detaches {
			done, err := s.settled(ctx, id)
			if done && err == nil {
				done, err = s.tryDecide(ctx, id, sql, commit)
			}
			if done || err != nil {
				return err
			}
		}
		switch try {
		case killAfter:
			others, err := s.holders(ctx, []int{id.Worker})
			if err == nil {
				err = s.kill(ctx, s.foreign(others))
			}
			if err != nil {
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

// settled says whether all sessions that may hold the transaction are gone, and lets the server come to rest then.
func (s *Sink) settled(ctx context.Context, id txnsink.ID) (bool, error) {
	sessions, err := s.holders(ctx, []int{id.Worker})
	if err != nil {
		return false, plain(err)
	}
	if len(s.foreign(sessions)) > 0 {
		return false, nil
	}
	wait := time.NewTimer(settleTime)
	defer wait.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-wait.C:
		return true, nil
	}
}

// tryDecide sends the decision. done says that it is made.
func (s *Sink) tryDecide(ctx context.Context, id txnsink.ID, sql string, commit bool) (done bool, err error) {
	_, err = s.control.ExecContext(ctx, sql)
	switch number(err) {
	case errXARolledBack, errXARollbackTimeout, errXARollbackLock:
		return true, errGone
	case errXAUnknown, errXAState:
		return false, nil
	case errLockWait:
		return false, fmt.Errorf("%w: %w", txnsink.ErrBusy, plain(err))
	}
	if err != nil {
		return false, plain(err)
	}
	if s.facts.detaches {
		return true, nil
	}
	return true, s.verify(ctx, id, commit)
}

// verify compares what the server has answered with the witness.
func (s *Sink) verify(ctx context.Context, id txnsink.ID, commit bool) error {
	level := sql.LevelReadUncommitted // a transaction that is still there shows its witness
	if commit {
		level = sql.LevelReadCommitted
	}
	there := false
	err := s.readWitnesses(ctx, id.Pipeline, level, func(found txnsink.ID, _ float64) {
		if found.Worker == id.Worker {
			there = found == id || commit && found.Checkpoint > id.Checkpoint
		}
	})
	if err == nil && there != commit {
		err = permanent("the server has answered that it is decided, and holds it all the same, unlisted: restart the server, which lists it again, and start again")
	}
	if err != nil {
		return plain(err)
	}
	return nil
}

var errMayNotList = permanent("the target's user may not list prepared transactions: GRANT XA_RECOVER_ADMIN ON *.* TO it, %s", adviceOnePhase)

// recover lists the prepared transactions of the whole server whose format is ours.
func (s *Sink) recover(ctx context.Context) (out []xid, err error) {
	rows, err := s.control.QueryContext(ctx, "XA RECOVER")
	if err != nil {
		if number(err) == errXARecover {
			return nil, errMayNotList
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
//
// With OnePhase it lists none where the user may not look. There can be one of an earlier two-phase run only: it holds its
// witness's row, so that Fence does not pass.
func (s *Sink) Pending(ctx context.Context, pipeline string) ([]txnsink.Prepared, error) {
	var out []txnsink.Prepared
	listed, err := s.recover(ctx)
	if s.config.OnePhase && errors.Is(err, errMayNotList) {
		s.config.Log.Info("prepared transactions of an earlier run are not looked for", "pipeline", pipeline, "because", err)
		return nil, nil
	}
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
func (s *Sink) ages(ctx context.Context, pipeline string, list []txnsink.Prepared) error {
	return s.readWitnesses(ctx, pipeline, sql.LevelReadUncommitted, func(id txnsink.ID, age float64) {
		if i := slices.IndexFunc(list, func(p txnsink.Prepared) bool { return p.ID == id }); i >= 0 {
			list[i].AgeSeconds = age
		}
	})
}

// readWitnesses calls do with the transaction that each witness is of, and its age in seconds.
func (s *Sink) readWitnesses(ctx context.Context, pipeline string, level sql.IsolationLevel, do func(id txnsink.ID, age float64)) (err error) {
	const query = `SELECT worker, checkpoint, written, GREATEST(TIMESTAMPDIFF(MICROSECOND, updated, UTC_TIMESTAMP(6)), 0) / 1e6
FROM replicator_witness WHERE pipeline = ?`
	tx, err := s.control.BeginTx(ctx, &sql.TxOptions{Isolation: level, ReadOnly: true})
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
		id := txnsink.ID{Pipeline: pipeline}
		var age float64
		if err := rows.Scan(&id.Worker, &id.Checkpoint, &id.Epoch, &age); err != nil {
			return err
		}
		do(id, age)
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
