package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"replicator/sqlgen"
	"replicator/txnsink"
)

const (
	defaultLockTimeout = 10 * time.Second
	// Bounds of the wait for a prepared transaction that another session is just deciding.
	busyInterval = 20 * time.Millisecond
	busyTries    = 250
)

// Config is one pipeline's target.
type Config struct {
	URL         string        // as libpq and pgx take it
	Pipeline    string        // letters, digits, '_', '.', '-'
	LockTimeout time.Duration // how long a statement waits for another session's row; 0: 10 s
	Schema      string        // of tables whose name has none; empty: the first of the session's search_path
	Log         *slog.Logger  // nil: silent
}

// Sink is the transactions and the catalog of one PostgreSQL database, for one pipeline. It is safe for concurrent use.
type Sink struct {
	config  Config
	pg      *pgx.ConnConfig
	dialect sqlgen.Postgres

	workers *txnsink.Workers[session]

	mu       sync.Mutex
	controls []*pgx.Conn // idle ones
	closed   bool
	replica  bool   // sessions fire no user's triggers
	tls      string // the version that sessions speak, or nothing
}

var _ txnsink.Sink = (*Sink)(nil)

// Open connects to the target. It changes nothing there: see [Up] for the tables that Fence needs.
func Open(ctx context.Context, c Config) (*Sink, error) {
	if err := checkPipeline(c.Pipeline); err != nil {
		return nil, err
	}
	pg, err := pgx.ParseConfig(c.URL)
	if err != nil {
		return nil, permanent("target: %v", err)
	}
	// Without prepared statements a control session holds no plan that someone's DDL invalidates.
	pg.DefaultQueryExecMode = pgx.QueryExecModeExec
	if c.LockTimeout <= 0 {
		c.LockTimeout = defaultLockTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Sink{config: c, pg: pg, workers: txnsink.NewWorkers[session](c.Pipeline)}
	if err := s.control(ctx, func(c *pgx.Conn) error { return s.readExtensions(ctx, c) }); err != nil {
		return nil, plain(err)
	}
	return s, nil
}

// FiresTriggers says whether the target's triggers fire for what this sink writes: its role may not turn them off.
func (s *Sink) FiresTriggers() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.replica
}

// TLS returns the version of TLS that the sessions speak, as in TLS 1.3, and "" if what they send can be read on the way.
func (s *Sink) TLS() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tls
}

// Dialect returns PostgreSQL's.
func (s *Sink) Dialect() sqlgen.Dialect { return s.dialect }

// Begin opens a transaction on the worker's session. Fence must have been given the ID's epoch.
func (s *Sink) Begin(ctx context.Context, id txnsink.ID) (txnsink.Txn, error) {
	session, err := s.workers.Begin(id)
	if err != nil {
		return nil, fmt.Errorf("begin %v: %w", id, err)
	}
	if session == nil {
		if session, err = s.openSession(ctx, id); err != nil {
			s.workers.End(id, nil)
			return nil, fmt.Errorf("begin %v: %w", id, err)
		}
	}
	return &txn{sink: s, id: id, session: session}, nil
}

// release ends t. Its session goes back to the worker, if it is usable and the worker is still of t's epoch.
func (s *Sink) release(t *txn) {
	if !t.session.usable() {
		s.workers.End(t.id, nil)
		t.session.close()
	} else if !s.workers.End(t.id, t.session) {
		t.session.close()
	}
}

// Commit commits a prepared transaction.
func (s *Sink) Commit(ctx context.Context, id txnsink.ID) error {
	if err := s.decide(ctx, id, "COMMIT PREPARED"); err != nil {
		if code(err) != codeUndefinedObject {
			return s.decisionError("commit", id, err)
		}
		if err := s.control(ctx, func(c *pgx.Conn) error { return witnessed(ctx, c, id) }); err != nil {
			return fmt.Errorf("commit %v: it is not prepared: %w", id, err)
		}
	}
	s.workers.Committed(id)
	return nil
}

// Abort rolls a prepared transaction back.
func (s *Sink) Abort(ctx context.Context, id txnsink.ID) error {
	if err := s.decide(ctx, id, "ROLLBACK PREPARED"); err != nil && code(err) != codeUndefinedObject {
		return s.decisionError("roll back", id, err)
	}
	return nil
}

// decide runs COMMIT PREPARED or ROLLBACK PREPARED. Its error is the driver's: a caller branches on the code. While
// another session decides the same transaction, it is tried again.
func (s *Sink) decide(ctx context.Context, id txnsink.ID, verb string) error {
	if id.Pipeline != s.config.Pipeline {
		return permanent("transaction %v is not of pipeline %s", id, s.config.Pipeline)
	}
	tick := time.NewTicker(busyInterval)
	defer tick.Stop()
	for try := 1; ; try++ {
		var refused error // the server's answer, which leaves the session usable
		err := s.control(ctx, func(c *pgx.Conn) error {
			refused = simple(ctx, c.PgConn(), verb+" "+literal(gid(id)), verb)
			if code(refused) == "" {
				return refused
			}
			return nil
		})
		if err != nil {
			return err
		}
		if refused == nil || code(refused) != codeNotInState || try == busyTries {
			return refused
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// decisionError says why a prepared transaction could not be decided.
func (s *Sink) decisionError(verb string, id txnsink.ID, err error) error {
	switch code(err) {
	case codeNotInState:
		return fmt.Errorf("%s %v: another session has been deciding it for %v: %w", verb, id, busyTries*busyInterval, txnsink.ErrBusy)
	case codePrivilege:
		return permanent("%s %v: only the role that prepared it or a superuser may: connect as that role (pg_prepared_xacts.owner)", verb, id)
	case codeNotSupported:
		return permanent("%s %v: it was prepared in another database of this server (pg_prepared_xacts.database): two pipelines must not have the same name there", verb, id)
	}
	return fmt.Errorf("%s %v: %w", verb, id, plain(err))
}

// witnessed returns nil if the transaction, which is not prepared, was committed. A worker's commits have rising checkpoints, and
// a checkpoint is committed by one epoch: so a witness beyond the transaction's checkpoint passed it, and one at
// its checkpoint must be of its epoch.
func witnessed(ctx context.Context, c *pgx.Conn, id txnsink.ID) error {
	const query = `SELECT checkpoint, written, EXISTS (
	SELECT FROM pg_catalog.pg_prepared_xacts WHERE gid = $3 AND database = current_database())
FROM replicator.witness WHERE pipeline = $1 AND worker = $2`
	var checkpoint, written int64
	var listed bool
	err := c.QueryRow(ctx, query, id.Pipeline, id.Worker, gid(id)).Scan(&checkpoint, &written, &listed)
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		return fmt.Errorf("worker %d has no witness: %w", id.Worker, txnsink.ErrLost)
	case err != nil:
		return plain(err)
	case listed:
		return fmt.Errorf("it is listed all the same: %w", txnsink.ErrBusy)
	case checkpoint < id.Checkpoint, checkpoint == id.Checkpoint && written != id.Epoch:
		return fmt.Errorf("the witness is at checkpoint %d of epoch %d: %w", checkpoint, written, txnsink.ErrLost)
	}
	return nil
}

// Pending lists the pipeline's prepared transactions in this database.
func (s *Sink) Pending(ctx context.Context, pipeline string) ([]txnsink.Prepared, error) {
	const query = `SELECT gid, greatest(extract(epoch FROM clock_timestamp() - prepared), 0)::float8
FROM pg_catalog.pg_prepared_xacts
WHERE database = current_database() AND starts_with(gid, $1)
ORDER BY prepared, gid`
	var out []txnsink.Prepared
	err := s.control(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, query, gidPrefix+pipeline+":")
		if err != nil {
			return err
		}
		var name string
		var age float64
		_, err = pgx.ForEachRow(rows, []any{&name, &age}, func() error {
			if id, ok := ParseID(name); ok && id.Pipeline == pipeline {
				out = append(out, txnsink.Prepared{ID: id, AgeSeconds: age})
			}
			return nil
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list prepared transactions of pipeline %s: %w", pipeline, plain(err))
	}
	return out, nil
}

// Notes returns the pipeline's witnesses.
func (s *Sink) Notes(ctx context.Context, pipeline string) ([]txnsink.Note, error) {
	const query = `SELECT worker, epoch, checkpoint, note FROM replicator.witness WHERE pipeline = $1 ORDER BY worker`
	var out []txnsink.Note
	err := s.control(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, query, pipeline)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[txnsink.Note])
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the witnesses of pipeline %s: %w", pipeline, plain(err))
	}
	return out, nil
}

// Close closes the sessions that no transaction uses. An open transaction closes its own when it ends.
func (s *Sink) Close() error {
	s.mu.Lock()
	s.closed = true
	controls := s.controls
	s.controls = nil
	s.mu.Unlock()
	for _, c := range controls {
		closeConn(c)
	}
	for _, session := range s.workers.Close() {
		session.close()
	}
	return nil
}
