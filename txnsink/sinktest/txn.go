package sinktest

import (
	"context"
	"errors"
	"fmt"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// memoryTxn is an open or a prepared transaction. Its log is replayed on what is visible whenever that has changed:
// so a transaction may run over rows of a prepared one, as it would on a server after a wait.
type memoryTxn struct {
	sink   *MemorySink
	id     txnsink.ID
	dead   error // the session is gone, the transaction failed or is over
	log    []sqlgen.Statement
	note   string
	keys   map[lock]bool
	tables map[schema.Name]*table // the log's outcome on version
	at     int
}

var errOver = errors.New("the transaction is over")

func (t *memoryTxn) ID() txnsink.ID { return t.id }

// usable is called with m.mu held.
func (t *memoryTxn) usable(ctx context.Context) error {
	if t.dead != nil {
		return fmt.Errorf("transaction %v: %w", t.id, t.dead)
	}
	return t.sink.usable(ctx)
}

func (t *memoryTxn) Apply(ctx context.Context, batch []sqlgen.Statement) error {
	m := t.sink.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := t.usable(ctx); err != nil {
		return err
	}
	err := t.apply(batch)
	if err != nil {
		t.dead = errors.New("it failed, and can only be rolled back")
	}
	return err
}

func (t *memoryTxn) apply(batch []sqlgen.Statement) error {
	m := t.sink.m
	if err := m.lockRows(t, batch); err != nil {
		return err
	}
	if t.tables == nil || t.at != m.version {
		tables, err := m.replay(t.log, m.inDoubt(t))
		if err != nil {
			return err
		}
		t.tables, t.at = tables, m.version
	}
	t.log = append(t.log, batch...)
	return m.run(t.tables, batch)
}

// lockRows takes the locks that batch needs. A row of another open transaction is busy; one of a prepared transaction
// is waited for until PreCommit or Commit.
func (m *Memory) lockRows(t *memoryTxn, batch []sqlgen.Statement) error {
	for i := range batch {
		c, tbl, err := m.changeOf(&batch[i], m.tables)
		if err != nil {
			return err
		}
		for _, key := range c.keys(tbl) {
			k := lock{c.table, key}
			t.keys[k] = true
			switch holder := m.locks[k]; {
			case holder == nil:
				m.locks[k] = t
			case holder != t && m.open[holder]:
				return fmt.Errorf("table %s: a row is locked by transaction %v: %w", c.table, holder.id, txnsink.ErrBusy)
			}
		}
	}
	return nil
}

// inDoubt returns the logs of all prepared transactions but t, each as a whole.
func (m *Memory) inDoubt(t *memoryTxn) [][]sqlgen.Statement {
	var out [][]sqlgen.Statement
	for _, p := range m.prepared {
		if p != t {
			out = append(out, p.log)
		}
	}
	return out
}

// replay returns the tables that change when log runs after before on what is visible.
func (m *Memory) replay(log []sqlgen.Statement, before [][]sqlgen.Statement) (map[schema.Name]*table, error) {
	tables := make(map[schema.Name]*table)
	for _, b := range before {
		if err := m.run(tables, b); err != nil {
			return nil, err
		}
	}
	return tables, m.run(tables, log)
}

// run applies statements to tables, which are copied from the visible ones when first touched.
func (m *Memory) run(tables map[schema.Name]*table, batch []sqlgen.Statement) error {
	for i := range batch {
		s := &batch[i]
		c, t, err := m.changeOf(s, tables)
		if err != nil {
			return err
		}
		if tables[c.table] == nil {
			t = t.clone()
			tables[c.table] = t
		}
		if err := t.apply(s, c); err != nil {
			return err
		}
	}
	return nil
}

// changeOf returns what s asks for and the table that it is about, from tables or else the visible one.
func (m *Memory) changeOf(s *sqlgen.Statement, tables map[schema.Name]*table) (change, *table, error) {
	c, err := decodeChange(s.Args)
	if err != nil {
		return change{}, nil, fmt.Errorf("table %s: %w", s.Table, err)
	}
	t := tables[c.table]
	if t == nil {
		t = m.tables[c.table]
	}
	if t == nil {
		return change{}, nil, fmt.Errorf("table %s does not exist", c.table)
	}
	return c, t, nil
}

// end checks the witness and that nothing is waited for any more. With prepare the transaction is in doubt after it,
// else visible.
func (t *memoryTxn) end(ctx context.Context, prepare bool) error {
	m := t.sink.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := t.usable(ctx); err != nil {
		return err
	}
	err := t.checkWitness()
	if err == nil && prepare {
		delete(m.open, t)
		m.prepared[t.id] = t
		m.version++
	} else if err == nil {
		if err = m.show(t); err == nil {
			t.sink.advance(worker{t.id.Pipeline, t.id.Worker})
		}
	}
	if err != nil || !prepare {
		m.release(t)
	}
	t.dead = errOver
	if err != nil {
		return fmt.Errorf("transaction %v: %w", t.id, err)
	}
	return nil
}

func (t *memoryTxn) checkWitness() error {
	m := t.sink.m
	w := worker{t.id.Pipeline, t.id.Worker}
	row, previous := m.witness[w], t.sink.previous[w]
	if row.epoch > t.id.Epoch {
		return fmt.Errorf("the witness is at epoch %d: %w", row.epoch, txnsink.ErrFenced)
	}
	// The number of a checkpoint that an earlier epoch committed in one step and could not save is used again.
	used := row.checkpoint > t.id.Checkpoint || row.checkpoint == t.id.Checkpoint && row.written >= t.id.Epoch
	if row.epoch != t.id.Epoch || row.checkpoint != previous.checkpoint || used {
		return fmt.Errorf("the witness is at epoch %d, checkpoint %d, not at checkpoint %d", row.epoch, row.checkpoint, previous.checkpoint)
	}
	for id := range m.prepared {
		if id.Pipeline == t.id.Pipeline && id.Worker == t.id.Worker {
			return fmt.Errorf("transaction %v of the same worker is in doubt: %w", id, txnsink.ErrBusy)
		}
	}
	for k := range t.keys {
		switch holder := m.locks[k]; holder {
		case nil:
			m.locks[k] = t
		case t:
		default:
			return fmt.Errorf("table %s: a row is locked by transaction %v: %w", k.table, holder.id, txnsink.ErrBusy)
		}
	}
	if _, err := m.replay(t.log, m.inDoubt(t)); err != nil {
		return err
	}
	return nil
}

func (t *memoryTxn) PreCommit(ctx context.Context) error { return t.end(ctx, true) }

func (t *memoryTxn) Commit(ctx context.Context, note []byte) error {
	t.note = string(note)
	return t.end(ctx, false)
}

func (t *memoryTxn) Abort(context.Context) error {
	m := t.sink.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open[t] {
		m.release(t)
	}
	t.dead = errOver
	return nil
}
