package sinktest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// definition is a DDL statement of a Memory database, as JSON after definePrefix.
type definition struct {
	Drop     schema.Name  `json:"drop"`     // the table that goes, if it has a name
	Truncate bool         `json:"truncate"` // Drop stays, and its rows go
	Make     schema.Table `json:"make"`     // the table that comes, if it has a name
	From     []string     `json:"from"`     // by column of Make: the column of Drop that its values are from; empty: NULL
}

const (
	definePrefix   = "DEFINE "
	truncatePrefix = "TRUNCATE " // the table's name follows
)

func (d definition) sql() string {
	b, err := json.Marshal(d)
	if err != nil {
		panic(fmt.Sprintf("a definition is always JSON: %v", err))
	}
	return definePrefix + string(b)
}

// CreateTable returns the statement that creates t, unless a table of its name exists.
func (Dialect) CreateTable(t schema.Table) []string {
	return []string{definition{Make: t}.sql()}
}

// Define runs definitions. While a transaction holds a row of a table, nothing but its creation can be defined.
func (s *MemorySink) Define(ctx context.Context, d txnsink.Definition) error {
	m := s.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return err
	}
	if at := m.witness[worker{d.Pipeline, 0}].epoch; d.Epoch != 0 && at > d.Epoch {
		return fmt.Errorf("define: epoch %d is at work: %w", at, txnsink.ErrFenced)
	}
	if d.Of != nil {
		if err := d.Of.Still(m.shape(d.Of.Name)); err != nil {
			return err
		}
	}
	tables := maps.Clone(m.tables)
	for _, sql := range d.DDL {
		if err := m.define(tables, sql); err != nil {
			return err
		}
	}
	m.tables = tables
	m.version++
	for _, v := range d.Defined {
		if m.defined[d.Pipeline] == nil {
			m.defined[d.Pipeline] = map[string]txnsink.Defined{}
		}
		m.defined[d.Pipeline][v.Source] = v
	}
	return nil
}

// define runs one statement on tables.
func (m *Memory) define(tables map[schema.Name]*table, sql string) error {
	d, err := parseDefinition(sql)
	if err != nil {
		return err
	}
	for l := range m.locks {
		if l.table == d.Drop {
			return fmt.Errorf("a transaction holds rows of table %v: %w", l.table, txnsink.ErrBusy)
		}
	}
	old := tables[d.Drop]
	if d.Drop.Table != "" {
		if old == nil {
			return fmt.Errorf("there is no table %v", d.Drop)
		}
		delete(tables, d.Drop)
	}
	if d.Truncate {
		tables[d.Drop] = &table{shape: old.shape, rows: make(map[string]stored)}
	}
	if d.Make.Name.Table == "" || tables[d.Make.Name] != nil {
		return nil
	}
	made := &table{shape: d.Make, rows: make(map[string]stored)}
	tables[d.Make.Name] = made
	if old == nil {
		return nil
	}
	return made.refill(old, d.From)
}

func parseDefinition(sql string) (d definition, err error) {
	if name, ok := strings.CutPrefix(sql, truncatePrefix); ok {
		return definition{Drop: schema.ParseName(name), Truncate: true}, nil
	}
	text, ok := strings.CutPrefix(sql, definePrefix)
	if !ok {
		return d, fmt.Errorf("not a statement of this dialect: %q", sql)
	}
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return d, fmt.Errorf("not a definition: %w", err)
	}
	return d, nil
}

// refill takes the rows of old over, each column of t from the one that from names.
func (t *table) refill(old *table, from []string) error {
	for _, r := range old.rows {
		cells := make([]cell, len(t.shape.Columns))
		for i := range cells {
			cells[i] = defaultOf(t.shape.Columns[i])
			if at := slices.IndexFunc(old.shape.Columns, func(c schema.Column) bool { return c.Name == from[i] }); at >= 0 {
				cells[i] = r.cells[at]
			}
		}
		if len(t.shape.PrimaryKey) == 0 {
			if err := t.add(cells, r.count); err != nil {
				return err
			}
			continue
		}
		var key []cell
		for _, name := range t.shape.PrimaryKey {
			key = append(key, cells[slices.IndexFunc(t.shape.Columns, func(c schema.Column) bool { return c.Name == name })])
		}
		if err := t.put(image(key), cells); err != nil {
			return err
		}
	}
	return nil
}

// defaultOf is what a column holds where a row does not say.
func defaultOf(c schema.Column) cell {
	if c.Default == nil {
		return cell{length: sqlgen.NullLength}
	}
	return cell{length: int32(len(*c.Default)), data: []byte(*c.Default)}
}

// Defined returns what was remembered.
func (s *MemorySink) Defined(ctx context.Context, pipeline string) ([]txnsink.Defined, error) {
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	if err := s.usable(ctx); err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Values(s.m.defined[pipeline]), func(a, b txnsink.Defined) int {
		return strings.Compare(a.Source, b.Source)
	}), nil
}
