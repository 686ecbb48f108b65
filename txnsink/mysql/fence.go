package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"replicator/txnsink"
)

const (
	fenceLockTimeout = "1"             // seconds, the least there is: for a witness that a transaction in doubt holds
	fenceEndTimeout  = 2 * time.Second // for ended sessions to be gone
	fenceEndInterval = 10 * time.Millisecond
)

// Fence raises the epoch of all witnesses of the pipeline, also of workers that this run does not have, and then ends
// the sessions of earlier epochs. In that order: a process whose session is ended finds the later epoch and gives up,
// where otherwise it would take a crash for the cause and take the pipeline back. A session that cannot be ended is
// harmless: its transaction has lost its witness.
func (s *Sink) Fence(ctx context.Context, pipeline string, epoch int64, workers int) error {
	if pipeline != s.config.Pipeline {
		return permanent("this sink is of pipeline %s, not of %s", s.config.Pipeline, pipeline)
	}
	previous, err := s.raise(ctx, epoch, workers)
	busy := number(err) == errLockWait || number(err) == errDeadlock
	if err != nil && !busy {
		if !errors.Is(err, txnsink.ErrFenced) {
			err = plain(err)
		}
		return fmt.Errorf("raise the witnesses to epoch %d: %w", epoch, err)
	}
	s.closeSessions(s.workers.TakeIdle(), false)
	// What holds a witness is a prepared transaction, which the caller decides, or a session on its way to one.
	known := slices.Collect(maps.Keys(previous))
	for i := range workers {
		if !slices.Contains(known, i) {
			known = append(known, i)
		}
	}
	if endErr := s.endSessions(ctx, known); endErr != nil {
		return fmt.Errorf("end the sessions of epochs before %d: %w", epoch, plain(endErr))
	}
	if busy {
		return fmt.Errorf("a transaction of an earlier epoch holds its witness: %w", txnsink.ErrBusy)
	}
	for _, session := range s.workers.Fence(epoch, workers, previous) {
		session.close()
	}
	return nil
}

// raise raises the witnesses' epoch in one transaction and returns the checkpoints that they are at. When a witness is locked, it
// returns those that can be read.
func (s *Sink) raise(ctx context.Context, epoch int64, workers int) (previous map[int]int64, err error) {
	conn, err := s.sessions.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	for _, sql := range []string{"SET SESSION innodb_lock_wait_timeout = " + fenceLockTimeout, "START TRANSACTION"} {
		if _, err := conn.ExecContext(ctx, sql); err != nil {
			return nil, err
		}
	}
	// Also those that cannot be locked say which workers there are.
	if previous, err = s.witnesses(ctx, conn, epoch, ""); err != nil {
		return nil, err
	}
	missing := false
	insert := strings.Builder{}
	insert.WriteString("INSERT IGNORE INTO replicator_witness (pipeline, worker, epoch) VALUES ")
	var args []any
	for i := range workers {
		if _, ok := previous[i]; ok {
			continue
		}
		if missing {
			insert.WriteString(", ")
		}
		missing = true
		insert.WriteString("(?, ?, ?)")
		args = append(args, s.config.Pipeline, i, epoch)
	}
	if missing {
		if _, err := conn.ExecContext(ctx, insert.String(), args...); err != nil {
			return previous, err
		}
	}
	// In one order, or two processes that start at once would lock each other out.
	locked, err := s.witnesses(ctx, conn, epoch, " FOR UPDATE")
	if err != nil {
		return previous, err
	}
	const update = `UPDATE replicator_witness SET epoch = ? WHERE pipeline = ? AND epoch < ?`
	if _, err := conn.ExecContext(ctx, update, epoch, s.config.Pipeline, epoch); err != nil {
		return previous, err
	}
	_, err = conn.ExecContext(ctx, "COMMIT")
	return locked, err
}

// witnesses returns the checkpoints of the pipeline's witnesses. If one has a later epoch: ErrFenced.
func (s *Sink) witnesses(ctx context.Context, conn *sql.Conn, epoch int64, lock string) (out map[int]int64, err error) {
	const query = `SELECT worker, epoch, checkpoint FROM replicator_witness WHERE pipeline = ? ORDER BY worker`
	rows, err := conn.QueryContext(ctx, query+lock, s.config.Pipeline)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	out = make(map[int]int64)
	for rows.Next() {
		var worker int
		var found, checkpoint int64
		if err := rows.Scan(&worker, &found, &checkpoint); err != nil {
			return nil, err
		}
		if found > epoch {
			return nil, fmt.Errorf("worker %d is at epoch %d: %w", worker, found, txnsink.ErrFenced)
		}
		out[worker] = checkpoint
	}
	return out, rows.Err()
}

// endSessions kills the sessions of workers, and waits a little for them to be gone.
func (s *Sink) endSessions(ctx context.Context, workers []int) error {
	limit := time.NewTimer(fenceEndTimeout)
	defer limit.Stop()
	tick := time.NewTicker(fenceEndInterval)
	defer tick.Stop()
	for {
		n, err := s.killWorkers(ctx, workers)
		if err != nil || n == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			s.config.Log.Warn("sessions of an earlier run do not end; their transactions are fenced, but may hold rows for a while", "sessions", n)
			return nil
		case <-tick.C:
		}
	}
}

// holders returns the sessions that hold the workers' locks.
func (s *Sink) holders(ctx context.Context, workers []int) ([]int64, error) {
	var out []int64
	for _, w := range workers {
		for n := range sessionsOfAWorker {
			var session sql.NullInt64
			name := lockName(s.database, s.config.Pipeline, w, n)
			if err := s.control.QueryRowContext(ctx, "SELECT IS_USED_LOCK(?)", name).Scan(&session); err != nil {
				return nil, err
			}
			if session.Valid {
				out = append(out, session.Int64)
			}
		}
	}
	return out, nil
}

// killWorkers kills the sessions that hold the workers' locks, and returns how many there were.
func (s *Sink) killWorkers(ctx context.Context, workers []int) (int, error) {
	sessions, err := s.holders(ctx, workers)
	if err != nil {
		return 0, err
	}
	return len(sessions), s.kill(ctx, sessions)
}

func (s *Sink) kill(ctx context.Context, sessions []int64) error {
	for _, session := range sessions {
		_, err := s.control.ExecContext(ctx, fmt.Sprintf("KILL %d", session))
		switch number(err) {
		case errNoSuchThread: // it has ended meanwhile
		case errNotOwner:
			return permanent("session %d works for this pipeline as another user, and is not ours to end: end it, or run as that user", session)
		default:
			if err != nil {
				return err
			}
		}
	}
	return nil
}
