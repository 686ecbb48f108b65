package mysql

import (
	"context"
	"crypto/tls"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/sqlgen"
	"replicator/txnsink"
)

const (
	defaultLockTimeout = 10 * time.Second
	maxControls        = 4 // idle sessions that no transaction uses
)

// Config is one pipeline's target.
type Config struct {
	URL         string        // mysql:// or mariadb://user:password@host:3306/database
	TLS         *tls.Config   // nil: none
	Pipeline    string        // letters, digits, '_', '.', '-'
	LockTimeout time.Duration // how long a statement waits for another session's row, in whole seconds; 0: 10 s
	// OnePhase makes transactions plain ones, for a server that cannot prepare any. PreCommit refuses then.
	OnePhase bool
	Log      *slog.Logger // nil: silent
}

// Sink is the transactions and the catalog of one database of MySQL or MariaDB, for one pipeline. It is safe for concurrent use.
type Sink struct {
	config   Config
	facts    facts
	database string  // its hash, see xidOf
	control  *sql.DB // of sessions that wait for no worker's rows
	sessions *sql.DB // of workers' sessions; it keeps none that is idle

	mu      sync.Mutex
	epoch   int64 // that Fence was given; 0: none
	workers map[int]*worker
	closed  bool
}

var _ txnsink.Sink = (*Sink)(nil)

// worker is one worker in one epoch. A new epoch has new ones. It is guarded by Sink.mu.
type worker struct {
	previous int64 // see the package's text on the witness
	idle     *session
	open     *txn
}

// Open connects to the target and asks what it is. It changes nothing there: see [Up] for the tables that Fence needs.
func Open(ctx context.Context, c Config) (*Sink, error) {
	if err := checkPipeline(c.Pipeline); err != nil {
		return nil, err
	}
	if c.LockTimeout <= 0 {
		c.LockTimeout = defaultLockTimeout
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	driver, err := parseURL(c.URL, c.TLS)
	if err != nil {
		return nil, fmt.Errorf("the target's URL %w", err)
	}
	return connect(ctx, c, driver)
}

// connect opens what driver describes.
func connect(ctx context.Context, c Config, driver *mysql.Config) (*Sink, error) {
	control, err := openDB(driver, c.LockTimeout)
	if err != nil {
		return nil, fmt.Errorf("target: %w", err)
	}
	sessions, err := openDB(driver, c.LockTimeout)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("target: %w", err), control.Close())
	}
	control.SetMaxIdleConns(maxControls)
	sessions.SetMaxIdleConns(-1)
	s := &Sink{config: c, control: control, sessions: sessions, workers: make(map[int]*worker)}
	if s.facts, err = look(ctx, control); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the target: %w", err), s.Close())
	}
	s.database = databaseHash(s.facts.database)
	return s, nil
}

// Dialect returns the server's.
func (s *Sink) Dialect() sqlgen.Dialect {
	vector := vectorMySQL
	if s.facts.mariaDB {
		vector = vectorMariaDB
	}
	return sqlgen.MySQL{MariaDB: s.facts.mariaDB, Vector: s.facts.number >= vector, MaxPacket: s.facts.maxPacket}
}

// Begin opens a transaction on the worker's session. Fence must have been given the ID's epoch.
func (s *Sink) Begin(ctx context.Context, id txnsink.ID) (txnsink.Txn, error) {
	t := &txn{sink: s, id: id}
	session, err := s.reserve(t)
	if err != nil {
		return nil, fmt.Errorf("begin %v: %w", id, err)
	}
	if session == nil {
		if session, err = s.openSession(ctx, id); err != nil {
			s.release(t, nil)
			return nil, fmt.Errorf("begin %v: %w", id, err)
		}
	}
	t.session = session
	return t, nil
}

// reserve makes t its worker's open transaction and returns the worker's idle session, if it has one.
func (s *Sink) reserve(t *txn) (*session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.workers[t.id.Worker]
	switch {
	case s.closed:
		return nil, errors.New("the sink is closed")
	case t.id.Pipeline != s.config.Pipeline:
		return nil, fmt.Errorf("this sink is of pipeline %s", s.config.Pipeline)
	case w == nil || t.id.Epoch != s.epoch:
		return nil, fmt.Errorf("worker %d of epoch %d was not fenced by this process", t.id.Worker, t.id.Epoch)
	case w.open != nil:
		return nil, fmt.Errorf("transaction %v of the same worker is open", w.open.id)
	}
	session := w.idle
	w.idle, w.open, t.worker = nil, t, w
	return session, nil
}

// release ends t. session goes back to the worker, if the worker is still of the sink's epoch; nil: it was closed.
func (s *Sink) release(t *txn, session *session) {
	s.mu.Lock()
	t.worker.open = nil
	keep := session != nil && !s.closed && s.workers[t.id.Worker] == t.worker
	if keep {
		t.worker.idle = session
	}
	s.mu.Unlock()
	if session != nil && !keep {
		session.close()
	}
}

// advance notes that a transaction is committed.
func (s *Sink) advance(id txnsink.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w := s.workers[id.Worker]; w != nil && w.previous < id.Checkpoint {
		w.previous = id.Checkpoint
	}
}

// Close closes the sessions that no transaction uses. An open transaction closes its own when it ends.
func (s *Sink) Close() error {
	s.mu.Lock()
	s.closed = true
	idle := s.takeIdle()
	s.mu.Unlock()
	for _, session := range idle {
		session.close()
	}
	return errors.Join(s.control.Close(), s.sessions.Close())
}

// takeIdle takes the workers' idle sessions away. It is called with s.mu held.
func (s *Sink) takeIdle() []*session {
	var out []*session
	for _, w := range s.workers {
		if w.idle != nil {
			out = append(out, w.idle)
			w.idle = nil
		}
	}
	return out
}
