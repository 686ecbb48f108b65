package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// Define changes what the control topic knows and tells the readers of the URL's topic, all in one transaction.
func (s *Sink) Define(ctx context.Context, d txnsink.Definition) error {
	s.defining.Lock()
	defer s.defining.Unlock()
	if err := s.define(ctx, d); err != nil {
		return fmt.Errorf("define: %w", err)
	}
	return nil
}

func (s *Sink) define(ctx context.Context, d txnsink.Definition) error {
	if err := s.usable(ctx); err != nil {
		return err
	}
	if err := s.lookAtTopic(ctx); err != nil {
		return err
	}
	if d.Of != nil {
		if now, err := s.Table(ctx, d.Of.Name); err != nil {
			return err
		} else if err := d.Of.Still(now); err != nil {
			return err
		}
	}
	var known map[schema.Name]schema.Table
	err := s.journal.view(ctx, func(st *state) error {
		known = maps.Clone(st.tables)
		if f := st.fences[d.Pipeline]; d.Epoch != 0 && f.Epoch > d.Epoch {
			return fmt.Errorf("the fence is at epoch %d: %w", f.Epoch, txnsink.ErrFenced)
		}
		return nil
	})
	if err != nil {
		return err
	}
	changes, err := changesOf(known, d.DDL)
	if err != nil || len(changes)+len(d.Defined) == 0 {
		return err
	}
	p, err := s.definer(ctx, d.Epoch)
	if err != nil {
		return err
	}
	err = s.write(ctx, p, func() { s.sendDefinition(ctx, p, changes, d) })
	if err != nil || d.Epoch == 0 {
		s.dismiss(p)
	}
	if err != nil && d.Epoch != 0 && taken(err) {
		if ferr := s.stillFenced(ctx, d.Epoch); ferr != nil {
			return ferr
		}
	}
	return plainUnlessFenced(err)
}

// changesOf checks the statements against the tables that are known, and returns those that change something.
func changesOf(known map[schema.Name]schema.Table, statements []string) ([]sqlgen.TableChange, error) {
	var out []sqlgen.TableChange
	for _, sql := range statements {
		c, err := sqlgen.ParseTableChange(sql)
		if err != nil {
			return nil, permanent("%v", err)
		}
		_, there := known[c.Name]
		switch c.Op {
		case sqlgen.OpCreate:
			if there {
				continue
			}
			known[c.Name] = *c.Table
		case sqlgen.OpAlter:
			if !there {
				return nil, permanent("there is no table %v to alter", c.Name)
			}
			delete(known, c.Name)
			known[c.Table.Name] = *c.Table
		case sqlgen.OpDrop:
			if !there {
				continue
			}
			delete(known, c.Name)
		}
		out = append(out, c)
	}
	return out, nil
}

// definer returns the producer of definitions: the leader where they belong to a run, which a later run has fenced, or else one of its
// own.
func (s *Sink) definer(ctx context.Context, epoch int64) (*producer, error) {
	if epoch == 0 {
		return s.newProducer(ctx, defineName)
	}
	s.mu.Lock()
	leader := s.leader
	s.mu.Unlock()
	if leader != nil {
		return leader, nil
	}
	leader, err := s.newFenced(ctx, leaderName, epoch)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.leader = leader
	s.mu.Unlock()
	return leader, nil
}

// dismiss closes a producer of definitions.
func (s *Sink) dismiss(p *producer) {
	s.mu.Lock()
	if s.leader == p {
		s.leader = nil
	}
	s.mu.Unlock()
	p.close()
}

// write has send send records in a transaction of p, commits it, and waits until the control topic shows that it is.
func (s *Sink) write(ctx context.Context, p *producer, send func()) error {
	if err := p.begin(); err != nil {
		return err
	}
	send()
	if err := p.flush(ctx); err != nil {
		return err
	}
	if err := p.end(ctx, true); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleWithin)
	defer cancel()
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		open := false
		if err := s.journal.view(ctx, func(st *state) error {
			open = len(st.open[p.number]) > 0
			if !open && st.aborted[p.number] {
				return errors.New("the brokers have rolled the transaction back")
			}
			return nil
		}); err != nil || !open {
			return err
		}
		if err := pause(ctx, wait); err != nil {
			return fmt.Errorf("the brokers do not end the transaction: %w", err)
		}
	}
}

// sendDefinition sends the changes to the readers and to the control topic, and then what is remembered.
func (s *Sink) sendDefinition(ctx context.Context, p *producer, changes []sqlgen.TableChange, d txnsink.Definition) {
	for _, c := range changes {
		m := sqlgen.Message{Op: c.Op, Key: encode(tableKey{c.Name.String()})}
		if c.SQL != "" {
			m.Value = []byte(c.SQL)
		} else if c.Table != nil {
			m.Value = encode(shapeOf(&c))
		}
		for _, r := range s.records(c.Name.String(), &m) {
			p.send(ctx, r)
		}
		key := recordKey{Kind: kindTable, Schema: c.Name.Schema, Table: c.Name.Table}
		if c.Op == sqlgen.OpDrop || c.Table != nil && c.Table.Name != c.Name {
			p.send(ctx, s.journal.record(key, nil))
		}
		if c.Table != nil {
			key.Schema, key.Table = c.Table.Name.Schema, c.Table.Name.Table
			p.send(ctx, s.journal.record(key, c.Table))
		}
	}
	for _, v := range d.Defined {
		p.send(ctx, s.journal.record(recordKey{Kind: kindNote, Pipeline: d.Pipeline, Source: v.Source}, note{v.Target, v.State}))
	}
}

// tableKey is the key of a message about a table.
type tableKey struct {
	Table string `json:"table"`
}

// shape is what a message says of a table.
type shape struct {
	Table   string   `json:"table"`
	Columns []column `json:"columns"`
	Key     []string `json:"key,omitempty"`
	// Renamed are columns that changed their names, all at once: by the former name the new one.
	Renamed map[string]string `json:"renamed,omitempty"`
}

type column struct {
	Name    string `json:"name"`
	Type    string `json:"type,omitempty"` // as the source calls it
	NotNull bool   `json:"not_null,omitempty"`
	// Default is what rows have that were there before the column, in the source's words.
	Default *string `json:"default,omitempty"`
}

func shapeOf(change *sqlgen.TableChange) shape {
	t := change.Table
	out := shape{Table: t.Name.String(), Key: t.PrimaryKey, Columns: []column{}}
	for _, c := range t.Columns {
		out.Columns = append(out.Columns, column{c.Name, c.Type.Native, c.NotNull, c.Default})
	}
	for _, r := range change.Renames {
		if out.Renamed == nil {
			out.Renamed = map[string]string{}
		}
		out.Renamed[r.From] = r.To
	}
	return out
}

// Defined returns what the pipeline's definitions had remembered.
func (s *Sink) Defined(ctx context.Context, pipeline string) ([]txnsink.Defined, error) {
	var out []txnsink.Defined
	err := s.journal.view(ctx, func(st *state) error {
		for k, n := range st.notes {
			if k.Pipeline == pipeline {
				out = append(out, txnsink.Defined{Source: k.Source, Target: n.Target, State: n.State})
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b txnsink.Defined) int { return cmp.Compare(a.Source, b.Source) })
	return out, err
}
