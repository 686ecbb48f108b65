package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"replicator/txnsink"
)

const (
	fenceLockTimeout = "500ms"         // for a witness that a transaction in doubt holds
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
	if err != nil && code(err) != codeLockTimeout {
		if !errors.Is(err, txnsink.ErrFenced) {
			err = plain(err)
		}
		return fmt.Errorf("raise the witnesses to epoch %d: %w", epoch, err)
	}
	// What holds a witness is a prepared transaction, which the caller decides, or a session on its way to one.
	if endErr := s.endSessions(ctx, epoch); endErr != nil {
		return fmt.Errorf("end the sessions of epochs before %d: %w", epoch, plain(endErr))
	}
	if err != nil {
		return fmt.Errorf("a transaction of an earlier epoch holds its witness: %w", txnsink.ErrBusy)
	}
	for _, session := range s.workers.Fence(epoch, workers, previous) {
		session.close()
	}
	return nil
}

// raise raises the witnesses' epoch in one transaction and returns the checkpoints that they are at.
func (s *Sink) raise(ctx context.Context, epoch int64, workers int) (map[int]int64, error) {
	const (
		insert = `INSERT INTO replicator.witness (pipeline, worker, epoch)
SELECT $1, n, $2 FROM generate_series(0, $3 - 1) AS n ON CONFLICT DO NOTHING`
		// In one order, or two processes that start at once would lock each other out.
		lock   = `SELECT worker, epoch, checkpoint FROM replicator.witness WHERE pipeline = $1 ORDER BY worker FOR UPDATE`
		update = `UPDATE replicator.witness SET epoch = $2 WHERE pipeline = $1 AND epoch < $2`
	)
	previous := make(map[int]int64)
	err := s.control(ctx, func(c *pgx.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, "SET LOCAL lock_timeout = '"+fenceLockTimeout+"'"); err != nil {
				return err
			}
			if _, err := tx.Exec(ctx, insert, s.config.Pipeline, epoch, workers); err != nil {
				return err
			}
			rows, err := tx.Query(ctx, lock, s.config.Pipeline)
			if err != nil {
				return err
			}
			var worker int
			var found, checkpoint int64
			if _, err := pgx.ForEachRow(rows, []any{&worker, &found, &checkpoint}, func() error {
				if found > epoch {
					return fmt.Errorf("worker %d is at epoch %d: %w", worker, found, txnsink.ErrFenced)
				}
				previous[worker] = checkpoint
				return nil
			}); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, update, s.config.Pipeline, epoch)
			return err
		})
	})
	return previous, err
}

// endSessions ends the pipeline's worker sessions of earlier epochs, and waits a little for them to be gone. Only sessions of
// this role and database are looked at: the role may end its own.
func (s *Sink) endSessions(ctx context.Context, epoch int64) error {
	limit := time.NewTimer(fenceEndTimeout)
	defer limit.Stop()
	tick := time.NewTicker(fenceEndInterval)
	defer tick.Stop()
	for {
		var old []int32
		err := s.control(ctx, func(c *pgx.Conn) error {
			var err error
			if old, err = s.oldSessions(ctx, c, epoch); err != nil || len(old) == 0 {
				return err
			}
			_, err = c.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM unnest($1::int4[]) AS pid`, old)
			return err
		})
		if err != nil || len(old) == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			s.config.Log.Warn("sessions of an earlier run do not end; their transactions are fenced, but may hold rows for a while", "sessions", len(old))
			return nil
		case <-tick.C:
		}
	}
}

// oldSessions returns the server processes of the worker sessions of epochs before epoch.
func (s *Sink) oldSessions(ctx context.Context, c *pgx.Conn, epoch int64) ([]int32, error) {
	const query = `SELECT pid, application_name FROM pg_catalog.pg_stat_activity
WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid() AND starts_with(application_name, $1)`
	rows, err := c.Query(ctx, query, workerPrefix(s.config.Pipeline))
	if err != nil {
		return nil, err
	}
	var old []int32
	var pid int32
	var name string
	_, err = pgx.ForEachRow(rows, []any{&pid, &name}, func() error {
		if e, ok := epochOf(s.config.Pipeline, name); ok && e < epoch {
			old = append(old, pid)
		}
		return nil
	})
	return old, err
}
