// Package mysql keeps checkpoints in a database of MySQL or MariaDB: the target or another one. Its tables are those that the
// sink's migrations make (see Up in txnsink/mysql).
//
// A checkpoint is saved in one transaction that first locks the pipeline's row, and finds it only if the epoch is still
// its own. Acquire raises the epoch in the same row: it waits for a save that is under way, and everything after it
// is fenced.
//
// A saved checkpoint is as durable as the server makes its commits: innodb_flush_log_at_trx_commit must be 1, its default.
package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"replicator/checkpoint"
	"replicator/txnsink"
	sink "replicator/txnsink/mysql"
)

const (
	lockTimeout = 10 * time.Second // for the one row that is locked, which is held for a few statements
	maxSessions = 2
)

// Store is a checkpoint.Store. It is safe for concurrent use.
type Store struct{ db *sql.DB }

var _ checkpoint.Store = (*Store)(nil)

// Open connects to the database of a URL, as the sink takes it. It changes nothing there.
func Open(ctx context.Context, url string, t sink.TLS) (*Store, error) {
	db, err := sink.OpenDB(url, t, lockTimeout)
	if err != nil {
		return nil, fmt.Errorf("the checkpoint store's URL %w", err)
	}
	db.SetMaxOpenConns(maxSessions)
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(sink.Plain(err), db.Close())
	}
	return &Store{db}, nil
}

// Close closes the sessions.
func (s *Store) Close() error { return sink.CloseDB(s.db) }

// transaction runs do in a transaction and commits it. The driver's error types stay here.
func (s *Store) transaction(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := s.db.BeginTx(ctx, nil)
	if err != nil {
		return sink.Plain(err)
	}
	if err = do(tx); err == nil {
		err = tx.Commit()
	} else if rollbackErr := tx.Rollback(); rollbackErr != nil && !errors.Is(rollbackErr, sql.ErrTxDone) {
		err = errors.Join(err, rollbackErr)
	}
	if err == nil || errors.Is(err, txnsink.ErrFenced) || errors.Is(err, checkpoint.ErrNotFound) {
		return err
	}
	return sink.Plain(err)
}

// Acquire takes the next epoch.
func (s *Store) Acquire(ctx context.Context, pipeline string) (checkpoint.Checkpoint, error) {
	const (
		// By itself: two processes that insert the same and then update it would lock each other out.
		insert = `INSERT IGNORE INTO replicator_pipelines (pipeline, epoch, acquired) VALUES (?, 0, UTC_TIMESTAMP(6))`
		raise  = `UPDATE replicator_pipelines SET epoch = epoch + 1, acquired = UTC_TIMESTAMP(6) WHERE pipeline = ?`
		epoch  = `SELECT epoch FROM replicator_pipelines WHERE pipeline = ?`
		last   = `SELECT document FROM replicator_checkpoints WHERE pipeline = ? ORDER BY id DESC LIMIT 1`
	)
	c := checkpoint.Checkpoint{Pipeline: pipeline}
	_, err := s.db.ExecContext(ctx, insert, pipeline)
	if err != nil {
		err = sink.Plain(err)
	} else {
		err = s.transaction(ctx, func(tx *sql.Tx) error {
			if _, err := tx.ExecContext(ctx, raise, pipeline); err != nil {
				return err
			}
			var next int64
			if err := tx.QueryRowContext(ctx, epoch, pipeline).Scan(&next); err != nil {
				return err
			}
			found, err := read(ctx, tx, last, pipeline)
			if err != nil {
				return err
			}
			if len(found) > 0 {
				c = found[0]
			}
			c.Epoch = next
			return nil
		})
	}
	if err != nil {
		return checkpoint.Checkpoint{}, fmt.Errorf("acquire pipeline %s: %w", pipeline, err)
	}
	return c, nil
}

// Save inserts c and prunes, in one transaction.
func (s *Store) Save(ctx context.Context, c checkpoint.Checkpoint, retain int) error {
	document, err := checkpoint.Marshal(c)
	if err == nil {
		err = s.transaction(ctx, func(tx *sql.Tx) error { return save(ctx, tx, c, document, retain) })
	}
	if err != nil {
		return fmt.Errorf("save checkpoint %d of pipeline %s: %w", c.ID, c.Pipeline, err)
	}
	return nil
}

func save(ctx context.Context, tx *sql.Tx, c checkpoint.Checkpoint, document []byte, retain int) error {
	const (
		lock   = `SELECT epoch FROM replicator_pipelines WHERE pipeline = ? AND epoch = ? FOR UPDATE`
		last   = `SELECT COALESCE(max(id), 0) FROM replicator_checkpoints WHERE pipeline = ?`
		insert = `INSERT INTO replicator_checkpoints (pipeline, id, epoch, created, savepoint, document) VALUES (?, ?, ?, ?, ?, ?)`
		// The inner query is one of its own because MySQL takes no LIMIT in that of an IN.
		prune = `DELETE FROM replicator_checkpoints WHERE pipeline = ? AND NOT savepoint AND id NOT IN (SELECT id FROM (
	SELECT id FROM replicator_checkpoints WHERE pipeline = ? AND NOT savepoint ORDER BY id DESC LIMIT ?) AS kept)`
	)
	var epoch, before int64
	err := tx.QueryRowContext(ctx, lock, c.Pipeline, c.Epoch).Scan(&epoch)
	if errors.Is(err, sql.ErrNoRows) {
		return fmt.Errorf("epoch %d is not the latest: %w", c.Epoch, txnsink.ErrFenced)
	}
	if err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, last, c.Pipeline).Scan(&before); err != nil {
		return err
	}
	if before >= c.ID {
		return fmt.Errorf("it is not after the last one, %d", before)
	}
	if _, err := tx.ExecContext(ctx, insert, c.Pipeline, c.ID, c.Epoch, c.Created, c.Savepoint, string(document)); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, prune, c.Pipeline, c.Pipeline, retain)
	return err
}

// List returns the saved checkpoints, oldest first.
func (s *Store) List(ctx context.Context, pipeline string) ([]checkpoint.Checkpoint, error) {
	const query = `SELECT document FROM replicator_checkpoints WHERE pipeline = ? ORDER BY id`
	out, err := read(ctx, s.db, query, pipeline)
	if err != nil {
		return nil, fmt.Errorf("list checkpoints of pipeline %s: %w", pipeline, sink.Plain(err))
	}
	return out, nil
}

// Load returns one checkpoint.
func (s *Store) Load(ctx context.Context, pipeline string, id int64) (checkpoint.Checkpoint, error) {
	const query = `SELECT document FROM replicator_checkpoints WHERE pipeline = ? AND id = ?`
	out, err := read(ctx, s.db, query, pipeline, id)
	switch {
	case err != nil:
		err = sink.Plain(err)
	case len(out) == 0:
		err = checkpoint.ErrNotFound
	}
	if err != nil {
		return checkpoint.Checkpoint{}, fmt.Errorf("load checkpoint %d of pipeline %s: %w", id, pipeline, err)
	}
	return out[0], nil
}

// Forget deletes one checkpoint.
func (s *Store) Forget(ctx context.Context, pipeline string, id int64) error {
	const (
		last   = `SELECT COALESCE(max(id), 0) FROM replicator_checkpoints WHERE pipeline = ?`
		remove = `DELETE FROM replicator_checkpoints WHERE pipeline = ? AND id = ?`
	)
	err := s.transaction(ctx, func(tx *sql.Tx) error {
		var highest int64
		if err := tx.QueryRowContext(ctx, last, pipeline).Scan(&highest); err != nil {
			return err
		}
		if highest == id {
			return checkpoint.ErrLast(id)
		}
		result, err := tx.ExecContext(ctx, remove, pipeline, id)
		if err != nil {
			return err
		}
		n, err := result.RowsAffected()
		if err == nil && n == 0 {
			return checkpoint.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove checkpoint %d of pipeline %s: %w", id, pipeline, err)
	}
	return nil
}

// queryer is a pool or a transaction.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// read collects the checkpoints of a query on their documents.
func read(ctx context.Context, q queryer, query string, args ...any) (out []checkpoint.Checkpoint, err error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var document []byte
		if err := rows.Scan(&document); err != nil {
			return nil, err
		}
		c, err := checkpoint.Unmarshal(document)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rows.Err()
}
