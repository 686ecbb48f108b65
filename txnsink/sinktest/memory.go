package sinktest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// Memory is a database. Its methods are for tests; the pipeline uses it through [Memory.Sink], which may be called
// once for each process that a test plays. It is safe for concurrent use.
type Memory struct {
	mu       sync.Mutex
	tables   map[schema.Name]*table
	witness  map[worker]witness
	defined  map[string]map[string]txnsink.Defined // by pipeline and source
	prepared map[txnsink.ID]*memoryTxn
	open     map[*memoryTxn]bool
	locks    map[lock]*memoryTxn
	version  int // changes when visible or prepared rows do
	stubborn bool
}

// worker names a row of the witness table.
type worker struct {
	pipeline string
	number   int
}

// witness is such a row: the epoch that may write, the last committed checkpoint, the epoch of that, and its note.
type witness struct {
	epoch, checkpoint, written int64
	note                       string
}

// lock is a row that an open or prepared transaction has written.
type lock struct {
	table schema.Name
	key   string
}

// NewMemory returns an empty database.
func NewMemory() *Memory {
	return &Memory{
		tables:   make(map[schema.Name]*table),
		witness:  make(map[worker]witness),
		defined:  make(map[string]map[string]txnsink.Defined),
		prepared: make(map[txnsink.ID]*memoryTxn),
		open:     make(map[*memoryTxn]bool),
		locks:    make(map[lock]*memoryTxn),
	}
}

// CreateTable creates t, replacing the table of that name.
func (m *Memory) CreateTable(t schema.Table) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tables[t.Name] = &table{shape: t, rows: make(map[string]stored)}
	m.version++
}

// Rows returns the committed rows of a table: each its values joined by "|", sorted.
func (m *Memory) Rows(name schema.Name) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.tables[name]
	if t == nil {
		return nil
	}
	return t.text()
}

// Prepared returns the transactions in doubt, of all pipelines.
func (m *Memory) Prepared() []txnsink.ID {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]txnsink.ID, 0, len(m.prepared))
	for id := range m.prepared {
		out = append(out, id)
	}
	slices.SortFunc(out, func(a, b txnsink.ID) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// Open returns how many transactions are open and not prepared.
func (m *Memory) Open() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.open)
}

// Crash is what a crash of the server does: every session is gone, and with it what was not prepared.
func (m *Memory) Crash() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.endSessions(errors.New("the server has crashed"), func(*memoryTxn) bool { return true })
}

// Stubborn says whether sessions of earlier epochs outlive Fence, as they do where the role may not end them. Their
// transactions then find out by their witness.
func (m *Memory) Stubborn(v bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stubborn = v
}

// endSessions ends the sessions of the open transactions that which selects; they answer err from now on.
func (m *Memory) endSessions(err error, which func(*memoryTxn) bool) {
	for t := range m.open {
		if which(t) {
			t.dead = err
			m.release(t)
		}
	}
}

// release forgets a transaction and its locks.
func (m *Memory) release(t *memoryTxn) {
	delete(m.open, t)
	for k := range t.keys {
		if m.locks[k] == t {
			delete(m.locks, k)
		}
	}
}

// Sink returns a new connection to the database, as one process has it.
func (m *Memory) Sink() *MemorySink {
	return &MemorySink{m: m, previous: make(map[worker]witness)}
}

// MemorySink is a txnsink.Sink on a [Memory].
type MemorySink struct {
	m        *Memory
	previous map[worker]witness // as Fence found and set it, and Commit advanced it; guarded by m.mu
	closed   bool
}

var _ txnsink.Sink = (*MemorySink)(nil)

// Fence fences. It is busy while a transaction of the pipeline is prepared.
func (s *MemorySink) Fence(ctx context.Context, pipeline string, epoch int64, workers int) error {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	rows := make(map[worker]witness)
	for w, row := range m.witness {
		if w.pipeline == pipeline {
			rows[w] = row
		}
	}
	for i := range workers {
		w := worker{pipeline, i}
		rows[w] = m.witness[w]
	}
	for w, row := range rows {
		if row.epoch > epoch {
			return fmt.Errorf("worker %d of pipeline %s is at epoch %d: %w", w.number, pipeline, row.epoch, txnsink.ErrFenced)
		}
	}
	for id := range m.prepared {
		if id.Pipeline == pipeline {
			return fmt.Errorf("transaction %v is in doubt: %w", id, txnsink.ErrBusy)
		}
	}
	for w, row := range rows {
		row.epoch = epoch
		m.witness[w], s.previous[w] = row, row
	}
	if !m.stubborn {
		fenced := fmt.Errorf("session ended by epoch %d of pipeline %s: %w", epoch, pipeline, txnsink.ErrFenced)
		m.endSessions(fenced, func(t *memoryTxn) bool { return t.id.Pipeline == pipeline && t.id.Epoch < epoch })
	}
	return nil
}

// Begin opens a transaction. The sink must have fenced the ID's epoch.
func (s *MemorySink) Begin(ctx context.Context, id txnsink.ID) (txnsink.Txn, error) {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	if p, ok := s.previous[worker{id.Pipeline, id.Worker}]; !ok || p.epoch != id.Epoch {
		return nil, fmt.Errorf("begin %v: this process has not fenced epoch %d", id, id.Epoch)
	}
	for t := range m.open {
		if t.sink == s && t.id.Pipeline == id.Pipeline && t.id.Worker == id.Worker {
			return nil, fmt.Errorf("begin %v: transaction %v of this worker is open", id, t.id)
		}
	}
	t := &memoryTxn{sink: s, id: id, keys: make(map[lock]bool)}
	m.open[t] = true
	return t, nil
}

// Commit commits a prepared transaction, or looks its witness up.
func (s *MemorySink) Commit(ctx context.Context, id txnsink.ID) error {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	w := worker{id.Pipeline, id.Worker}
	if t, ok := m.prepared[id]; ok {
		if err := m.show(t); err != nil {
			return fmt.Errorf("commit %v: %w", id, err)
		}
		delete(m.prepared, id)
		m.release(t)
	} else if row := m.witness[w]; row.checkpoint < id.Checkpoint || row.checkpoint == id.Checkpoint && row.written != id.Epoch {
		return fmt.Errorf("commit %v: the witness is at checkpoint %d of epoch %d: %w", id, row.checkpoint, row.written, txnsink.ErrLost)
	}
	s.advance(w)
	return nil
}

// advance notes the worker's witness as the one that the next transaction follows, if this sink writes it.
func (s *MemorySink) advance(w worker) {
	if p, ok := s.previous[w]; ok && p.epoch == s.m.witness[w].epoch {
		s.previous[w] = s.m.witness[w]
	}
}

// show makes a transaction's changes and its witness visible.
func (m *Memory) show(t *memoryTxn) error {
	tables, err := m.replay(t.log, nil)
	if err != nil {
		return err
	}
	for name, changed := range tables {
		m.tables[name] = changed
	}
	w := worker{t.id.Pipeline, t.id.Worker}
	m.witness[w] = witness{epoch: m.witness[w].epoch, checkpoint: t.id.Checkpoint, written: t.id.Epoch, note: t.note}
	m.version++
	return nil
}

// Abort rolls a prepared transaction back.
func (s *MemorySink) Abort(ctx context.Context, id txnsink.ID) error {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	if t, ok := m.prepared[id]; ok {
		delete(m.prepared, id)
		m.release(t)
		m.version++
	}
	return nil
}

// Pending lists the pipeline's prepared transactions. Their age is 0: there is no clock.
func (s *MemorySink) Pending(ctx context.Context, pipeline string) ([]txnsink.Prepared, error) {
	s.m.mu.Lock()
	err := s.usable(ctx)
	s.m.mu.Unlock()
	if err != nil {
		return nil, err
	}
	var out []txnsink.Prepared
	for _, id := range s.m.Prepared() {
		if id.Pipeline == pipeline {
			out = append(out, txnsink.Prepared{ID: id})
		}
	}
	return out, nil
}

// Notes returns the pipeline's witnesses.
func (s *MemorySink) Notes(ctx context.Context, pipeline string) ([]txnsink.Note, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	var out []txnsink.Note
	for w, row := range s.m.witness {
		if w.pipeline != pipeline {
			continue
		}
		n := txnsink.Note{Worker: w.number, Epoch: row.epoch, Checkpoint: row.checkpoint}
		if row.note != "" {
			n.Text = []byte(row.note)
		}
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b txnsink.Note) int { return a.Worker - b.Worker })
	return out, nil
}

// Dialect returns [Dialect].
func (s *MemorySink) Dialect() sqlgen.Dialect { return Dialect{} }

// Table returns a table's shape.
func (s *MemorySink) Table(ctx context.Context, name schema.Name) (*schema.Table, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	return s.m.shape(name), nil
}

// shape returns a table's shape; nil: there is none. m.mu is held.
func (m *Memory) shape(name schema.Name) *schema.Table {
	t := m.tables[name]
	if t == nil {
		return nil
	}
	shape := t.shape
	shape.Columns = slices.Clone(shape.Columns)
	return &shape
}

// Close ends the sink's sessions.
func (s *MemorySink) Close() error {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.closed = true
	s.m.endSessions(errClosed, func(t *memoryTxn) bool { return t.sink == s })
	return nil
}

var errClosed = errors.New("the sink is closed")

// usable is called with m.mu held.
func (s *MemorySink) usable(ctx context.Context) error {
	if s.closed {
		return errClosed
	}
	return ctx.Err()
}
