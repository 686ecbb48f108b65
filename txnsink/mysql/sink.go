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

	workers *txnsink.Workers[session]

	mu     sync.Mutex
	held   map[txnsink.ID]*session // that have prepared and cannot let go of it; see decide.go
	live   map[int64]bool          // the server's numbers of the workers' sessions that are open
	closed bool
}

var _ txnsink.Sink = (*Sink)(nil)

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
	s := &Sink{config: c, control: control, sessions: sessions, workers: txnsink.NewWorkers[session](c.Pipeline), held: make(map[txnsink.ID]*session), live: make(map[int64]bool)}
	if s.facts, err = look(ctx, control); err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the target: %w", err), s.Close())
	}
	settings, err := s.variables(ctx, "local_infile", "wsrep_load_data_splitting")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("connect to the target: %w", plain(err)), s.Close())
	}
	s.facts.loads = settings["local_infile"] == "ON" && settings["wsrep_load_data_splitting"] != "ON"
	s.database = databaseHash(s.facts.database)
	return s, nil
}

// Dialect returns the server's.
func (s *Sink) Dialect() sqlgen.Dialect {
	vector := vectorMySQL
	if s.facts.mariaDB {
		vector = vectorMariaDB
	}
	return sqlgen.MySQL{MariaDB: s.facts.mariaDB, Vector: s.facts.number >= vector, Load: s.facts.loads, MaxPacket: s.facts.maxPacket}
}

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

// release ends t. session goes back to the worker; nil: it was closed.
func (s *Sink) release(t *txn, session *session) {
	if !s.workers.End(t.id, session) && session != nil {
		session.close()
	}
}

// park gives a session that has decided what it prepared back to its worker.
func (s *Sink) park(id txnsink.ID, session *session) {
	if !s.workers.Keep(id, session) {
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

// Close closes the sessions that no transaction uses. An open transaction closes its own when it ends.
func (s *Sink) Close() error {
	s.closeSessions(s.workers.Close(), true)
	return errors.Join(CloseDB(s.control), CloseDB(s.sessions))
}

// closeSessions closes idle sessions, and those that hold what they have prepared.
func (s *Sink) closeSessions(idle []*session, last bool) {
	s.mu.Lock()
	s.closed = s.closed || last
	for _, session := range s.held {
		idle = append(idle, session)
	}
	clear(s.held)
	s.mu.Unlock()
	for _, session := range idle {
		session.close()
	}
}
