// Package postgres keeps checkpoints in a PostgreSQL database: the target or another one. Its tables are those that the
// sink's migrations make (see Up in txnsink/postgres).
//
// A checkpoint is saved in one transaction that first locks the pipeline's row, and finds it only if the epoch is still
// its own. Acquire raises the epoch in the same row: it waits for a save that is under way, and everything after it
// is fenced.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"replicator/checkpoint"
	"replicator/txnsink"
	sink "replicator/txnsink/postgres"
)

const closeTimeout = 2 * time.Second

// settings is what a session begins with. A checkpoint is a decision, so its commit must be on disk whatever the database's
// default is. The one row that is locked is held for a few statements.
const settings = `SET client_encoding = 'UTF8';
SET default_transaction_isolation = 'read committed';
SET default_transaction_read_only = off;
SET statement_timeout = 0;
SET lock_timeout = '10s';
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'`

// Store is a checkpoint.Store on one connection, which it opens again after it broke. It is safe for concurrent use.
type Store struct {
	url string

	mu   sync.Mutex // one transaction at a time
	conn *pgx.Conn
}

var _ checkpoint.Store = (*Store)(nil)

// Open connects to the database. It changes nothing there.
func Open(ctx context.Context, url string) (*Store, error) {
	s := &Store{url: url}
	if err := s.transaction(ctx, func(pgx.Tx) error { return nil }); err != nil {
		return nil, err
	}
	return s, nil
}

// Close closes the connection.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
	return nil
}

// drop closes the connection, if there is one. It is called with s.mu held.
func (s *Store) drop() {
	if s.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if err := s.conn.Close(ctx); err != nil {
		s.conn = nil // the server ends a session whose connection is gone
	}
	s.conn = nil
}

// connect opens the connection. The URL is read anew each time: with it are the files of certificates, which may have been renewed.
// It is called with s.mu held.
func (s *Store) connect(ctx context.Context) error {
	config, err := pgx.ParseConfig(s.url)
	if err != nil {
		return err
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.RuntimeParams["application_name"] = "replicator-checkpoints"
	if s.conn, err = pgx.ConnectConfig(ctx, config); err != nil {
		return err
	}
	if err := s.conn.PgConn().Exec(ctx, settings).Close(); err != nil {
		s.drop()
		return err
	}
	return nil
}

// transaction runs do in a transaction and commits it. The driver's error types stay here.
func (s *Store) transaction(ctx context.Context, do func(pgx.Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.conn == nil {
		if err := s.connect(ctx); err != nil {
			return sink.Plain(err)
		}
	}
	err := pgx.BeginFunc(ctx, s.conn, do)
	if err != nil && (s.conn.IsClosed() || s.conn.PgConn().TxStatus() != 'I') {
		s.drop()
	}
	if err == nil || errors.Is(err, txnsink.ErrFenced) || errors.Is(err, checkpoint.ErrNotFound) {
		return err
	}
	return sink.Plain(err)
}

// Acquire takes the next epoch.
func (s *Store) Acquire(ctx context.Context, pipeline string) (checkpoint.Checkpoint, error) {
	const (
		raise = `INSERT INTO replicator.pipelines AS p (pipeline, epoch) VALUES ($1, 1)
ON CONFLICT (pipeline) DO UPDATE SET epoch = p.epoch + 1, acquired = now() RETURNING epoch`
		last = `SELECT document::text FROM replicator.checkpoints WHERE pipeline = $1 ORDER BY id DESC LIMIT 1`
	)
	c := checkpoint.Checkpoint{Pipeline: pipeline}
	err := s.transaction(ctx, func(tx pgx.Tx) error {
		var epoch int64
		if err := tx.QueryRow(ctx, raise, pipeline).Scan(&epoch); err != nil {
			return err
		}
		found, err := read(tx.Query(ctx, last, pipeline))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			c = found[0]
		}
		c.Epoch = epoch
		return nil
	})
	if err != nil {
		return checkpoint.Checkpoint{}, fmt.Errorf("acquire pipeline %s: %w", pipeline, err)
	}
	return c, nil
}

// Save inserts c and prunes, in one transaction.
func (s *Store) Save(ctx context.Context, c checkpoint.Checkpoint, retain int) error {
	const (
		lock   = `SELECT FROM replicator.pipelines WHERE pipeline = $1 AND epoch = $2 FOR UPDATE`
		last   = `SELECT coalesce(max(id), 0) FROM replicator.checkpoints WHERE pipeline = $1`
		insert = `INSERT INTO replicator.checkpoints (pipeline, id, epoch, created, savepoint, document) VALUES ($1, $2, $3, $4, $5, $6)`
		prune  = `DELETE FROM replicator.checkpoints WHERE pipeline = $1 AND NOT savepoint AND id NOT IN (
	SELECT id FROM replicator.checkpoints WHERE pipeline = $1 AND NOT savepoint ORDER BY id DESC LIMIT $2)`
	)
	document, err := checkpoint.Marshal(c)
	if err == nil {
		err = s.transaction(ctx, func(tx pgx.Tx) error {
			tag, err := tx.Exec(ctx, lock, c.Pipeline, c.Epoch)
			if err != nil {
				return err
			}
			if tag.RowsAffected() != 1 {
				return fmt.Errorf("epoch %d is not the latest: %w", c.Epoch, txnsink.ErrFenced)
			}
			var before int64
			if err := tx.QueryRow(ctx, last, c.Pipeline).Scan(&before); err != nil {
				return err
			}
			if before >= c.ID {
				return fmt.Errorf("it is not after the last one, %d", before)
			}
			if _, err := tx.Exec(ctx, insert, c.Pipeline, c.ID, c.Epoch, c.Created, c.Savepoint, string(document)); err != nil {
				return err
			}
			_, err = tx.Exec(ctx, prune, c.Pipeline, retain)
			return err
		})
	}
	if err != nil {
		return fmt.Errorf("save checkpoint %d of pipeline %s: %w", c.ID, c.Pipeline, err)
	}
	return nil
}

// List returns the saved checkpoints, oldest first.
func (s *Store) List(ctx context.Context, pipeline string) ([]checkpoint.Checkpoint, error) {
	const query = `SELECT document::text FROM replicator.checkpoints WHERE pipeline = $1 ORDER BY id`
	var out []checkpoint.Checkpoint
	err := s.transaction(ctx, func(tx pgx.Tx) (err error) {
		out, err = read(tx.Query(ctx, query, pipeline))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list checkpoints of pipeline %s: %w", pipeline, err)
	}
	return out, nil
}

// Load returns one checkpoint.
func (s *Store) Load(ctx context.Context, pipeline string, id int64) (checkpoint.Checkpoint, error) {
	const query = `SELECT document::text FROM replicator.checkpoints WHERE pipeline = $1 AND id = $2`
	var out []checkpoint.Checkpoint
	err := s.transaction(ctx, func(tx pgx.Tx) (err error) {
		out, err = read(tx.Query(ctx, query, pipeline, id))
		return err
	})
	if err == nil && len(out) == 0 {
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
		last   = `SELECT coalesce(max(id), 0) FROM replicator.checkpoints WHERE pipeline = $1`
		remove = `DELETE FROM replicator.checkpoints WHERE pipeline = $1 AND id = $2`
	)
	err := s.transaction(ctx, func(tx pgx.Tx) error {
		var highest int64
		if err := tx.QueryRow(ctx, last, pipeline).Scan(&highest); err != nil {
			return err
		}
		if highest == id {
			return checkpoint.ErrLast(id)
		}
		tag, err := tx.Exec(ctx, remove, pipeline, id)
		if err == nil && tag.RowsAffected() == 0 {
			return checkpoint.ErrNotFound
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("remove checkpoint %d of pipeline %s: %w", id, pipeline, err)
	}
	return nil
}

// read collects the checkpoints of a query on their documents.
func read(rows pgx.Rows, err error) ([]checkpoint.Checkpoint, error) {
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (checkpoint.Checkpoint, error) {
		var document []byte
		if err := row.Scan(&document); err != nil {
			return checkpoint.Checkpoint{}, err
		}
		return checkpoint.Unmarshal(document)
	})
}
