package mysql

import (
	"context"
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
	TLS         TLS           // nil: none
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
	held    map[txnsink.ID]*session // that have prepared and cannot let go of it; see decide.go
	live    map[int64]bool          // the server's numbers of the workers' sessions that are open
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
	s := &Sink{config: c, control: control, sessions: sessions, workers: make(map[int]*worker), held: make(map[txnsink.ID]*session), live: make(map[int64]bool)}
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

// release ends t. session goes back to the worker; nil: it was closed.
func (s *Sink) release(t *txn, session *session) {
	s.mu.Lock()
	t.worker.open = nil
	s.mu.Unlock()
	s.park(t.id, session)
}

// park makes a session its worker's idle one, if the worker is still of the ID's epoch and has none, and else closes it.
func (s *Sink) park(id txnsink.ID, session *session) {
	if session == nil {
		return
	}
	s.mu.Lock()
	w := s.workers[id.Worker]
	keep := !s.closed && w != nil && s.epoch == id.Epoch && w.idle == nil
	if keep {
		w.idle = session
	}
	s.mu.Unlock()
	if !keep {
		session.close()
	}
}

// hold keeps the session that has prepared a transaction, for its decision.
func (s *Sink) hold(id txnsink.ID, session *session) {
	s.mu.Lock()
	keep := !s.closed
	if keep {
		s.held[id] = session
	}
	s.mu.Unlock()
	if !keep {
		session.close()
	}
}

// takeHeld takes away the session that has prepared a transaction; nil: it is not one of this sink's.
func (s *Sink) takeHeld(id txnsink.ID) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.held[id]
	delete(s.held, id)
	return session
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

// takeIdle takes away the workers' sessions that no open transaction uses. It is called with s.mu held.
func (s *Sink) takeIdle() []*session {
	var out []*session
	for _, w := range s.workers {
		if w.idle != nil {
			out = append(out, w.idle)
			w.idle = nil
		}
	}
	for _, session := range s.held {
		out = append(out, session)
	}
	clear(s.held)
	return out
}
