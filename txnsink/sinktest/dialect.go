package sinktest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
)

// Dialect is what a [Memory] database speaks. Values are encoded as text, and a statement carries the folded
// changes themselves in place of SQL's arguments.
type Dialect struct{}

var _ sqlgen.Dialect = Dialect{}

// Quote quotes like SQL.
func (Dialect) Quote(ident string) string { return strconv.Quote(ident) }

// ShortName returns name: there is no limit.
func (Dialect) ShortName(name string) string { return name }

// TargetTable returns the source's table under another name.
func (Dialect) TargetTable(source schema.Table, as schema.Name, _ sqlgen.Options) (schema.Table, error) {
	t := source
	t.Name = as
	t.Columns = slices.Clone(source.Columns)
	return t, nil
}

// Encoder returns how values become text. It holds integers to integer columns and texts to a Varchar's length, so
// that there are values which a Memory database cannot store.
func (Dialect) Encoder(_ debezium.Field, _ schema.Type, _ schema.Name, c schema.Column, _ sqlgen.Options) (sqlgen.Encoder, error) {
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		switch c.Type.Kind {
		case schema.Int8, schema.Int16, schema.Int24, schema.Int32, schema.Int64:
			if v.Kind != debezium.IntValue {
				return dst, &sqlgen.ValueError{Class: sqlgen.InvalidValue, Err: errors.New("not an integer")}
			}
		case schema.Varchar:
			if n := c.Type.Length; n > 0 && utf8.RuneCountInString(v.Text) > n {
				return dst, &sqlgen.ValueError{Class: sqlgen.TooLarge, Err: fmt.Errorf("longer than %d characters", n)}
			}
		}
		return appendText(dst, v), nil
	}, nil
}

// appendText appends v as text.
func appendText(dst []byte, v *debezium.Value) []byte {
	switch v.Kind {
	case debezium.BoolValue:
		return strconv.AppendBool(dst, v.Num != 0)
	case debezium.IntValue:
		return strconv.AppendInt(dst, v.Num, 10)
	case debezium.NumberValue, debezium.StringValue, debezium.BytesValue:
		return append(dst, v.Text...)
	case debezium.ListValue:
		dst = append(dst, '[')
		for i := range v.List.Values {
			if i > 0 {
				dst = append(dst, ',')
			}
			if v.List.Names != nil {
				dst = append(append(dst, v.List.Names[i]...), ':')
			}
			dst = appendText(dst, &v.List.Values[i])
		}
		return append(dst, ']')
	}
	return append(dst, "null"...)
}

// change is the one argument of a Memory statement, as JSON: a statement can be written to a log.
type change struct {
	table   schema.Name
	columns []string // of the rows, in their order
	key     []int    // indexes into columns
	part    sqlgen.Changes
}

// changeDocument is a change as JSON.
type changeDocument struct {
	Table   schema.Name
	Columns []string
	Key     []int
	Part    sqlgen.Changes
}

func (c change) encode() []byte {
	b, err := json.Marshal(changeDocument{c.table, c.columns, c.key, c.part})
	if err != nil {
		panic(fmt.Sprintf("a change is always JSON: %v", err))
	}
	return b
}

func decodeChange(args []any) (change, error) {
	if len(args) == 1 {
		if b, ok := args[0].([]byte); ok {
			var d changeDocument
			err := json.Unmarshal(b, &d)
			return change{d.Table, d.Columns, d.Key, d.Part}, err
		}
	}
	return change{}, errors.New("not a statement of this dialect")
}

// Statements returns one statement for each kind of change.
func (d Dialect) Statements(t *sqlgen.Target, c sqlgen.Changes) []sqlgen.Statement {
	columns := make([]string, len(t.Columns))
	for i := range t.Columns {
		columns[i] = t.Columns[i].Name
	}
	base := change{table: t.Table.Name, columns: columns, key: t.Key}
	c = cloneChanges(c) // a transaction in memory keeps its statements; the batch's memory is reused
	var out []sqlgen.Statement
	if c.Truncate {
		base.part = sqlgen.Changes{Truncate: true}
		out = append(out, sqlgen.Statement{Table: base.table, Kind: sqlgen.TruncateTable, SQL: truncatePrefix + base.table.String(), Args: []any{base.encode()}, Want: -1})
	}
	keyless := len(t.Key) == 0
	out = appendRows(out, base, sqlgen.DeleteRows, c.Deletes, keyless)
	out = appendRows(out, base, sqlgen.MoveRows, c.Moves, false)
	out = appendRows(out, base, sqlgen.UpdateRows, c.Updates, true)
	out = appendRows(out, base, sqlgen.UpdateRows, c.Marks, false)
	out = appendRows(out, base, sqlgen.UpsertRows, c.Upserts, false)
	out = appendRows(out, base, sqlgen.UpdateRows, c.Replacements, true)
	return appendRows(out, base, sqlgen.InsertRows, c.Inserts, true)
}

func cloneChanges(c sqlgen.Changes) sqlgen.Changes {
	rows := func(in []sqlgen.Row) []sqlgen.Row {
		out := slices.Clone(in)
		for i := range out {
			out[i].Data = bytes.Clone(out[i].Data)
		}
		return out
	}
	c.Deletes, c.Updates, c.Upserts, c.Inserts = rows(c.Deletes), rows(c.Updates), rows(c.Upserts), rows(c.Inserts)
	c.Marks = rows(c.Marks)
	c.Moves, c.Replacements = slices.Clone(c.Moves), slices.Clone(c.Replacements)
	for i := range c.Moves {
		m := &c.Moves[i]
		m.OldKey, m.Row.Data = bytes.Clone(m.OldKey), bytes.Clone(m.Row.Data)
	}
	for i := range c.Replacements {
		r := &c.Replacements[i]
		r.Before.Data, r.After.Data = bytes.Clone(r.Before.Data), bytes.Clone(r.After.Data)
	}
	return c
}

// appendRows appends the statement for rows, if there are any. exact: each of them must be found.
func appendRows[R sqlgen.Row | sqlgen.Move | sqlgen.Replacement](out []sqlgen.Statement, base change, kind sqlgen.StatementKind, rows []R, exact bool) []sqlgen.Statement {
	if len(rows) == 0 {
		return out
	}
	return append(out, rowsStatement(base, kind, rows, exact))
}

func rowsStatement[R sqlgen.Row | sqlgen.Move | sqlgen.Replacement](base change, kind sqlgen.StatementKind, rows []R, exact bool) sqlgen.Statement {
	base.part = sqlgen.Changes{}
	word := ""
	switch rows := any(rows).(type) {
	case []sqlgen.Move:
		base.part.Moves, word = rows, "MOVE"
	case []sqlgen.Replacement:
		base.part.Replacements, word = rows, "REPLACE"
	case []sqlgen.Row:
		switch kind {
		case sqlgen.DeleteRows:
			base.part.Deletes, word = rows, "DELETE"
		case sqlgen.UpdateRows:
			word = "UPDATE"
			if exact {
				base.part.Updates = rows
			} else {
				base.part.Marks = rows
			}
		case sqlgen.UpsertRows:
			base.part.Upserts, word = rows, "UPSERT"
		default:
			base.part.Inserts, word = rows, "INSERT"
		}
	}
	s := sqlgen.Statement{
		Table:  base.table,
		Kind:   kind,
		SQL:    word + " " + base.table.String(),
		Args:   []any{base.encode()},
		Rows:   len(rows),
		Want:   -1,
		Origin: func(i int) sqlgen.Origin { return originOf(base, any(rows[i])) },
	}
	if exact {
		s.Want = int64(len(rows))
	}
	if len(rows) > 1 {
		s.Slice = func(i, j int) sqlgen.Statement { return rowsStatement(base, kind, rows[i:j], exact) }
	}
	return s
}

// originOf names the record behind one row of a statement.
func originOf(c change, row any) sqlgen.Origin {
	var r sqlgen.Row
	whole := true
	switch row := row.(type) {
	case sqlgen.Row:
		r, whole = row, len(c.part.Deletes) == 0
	case sqlgen.Move:
		r = row.Row
	case sqlgen.Replacement:
		r = row.After
	}
	o := sqlgen.Origin{Partition: r.Partition, Offset: r.Offset}
	values, err := decodeRow(r.Data)
	if err != nil {
		return o
	}
	var parts []string
	for n, i := range c.key {
		at := i
		if !whole {
			at = n
		}
		if at < len(values) {
			parts = append(parts, c.columns[i]+"="+values[at].String())
		}
	}
	o.Key = strings.Join(parts, ",")
	return o
}

// cell is one value of a row: its length as sqlgen encodes it, and its bytes.
type cell struct {
	length int32
	data   []byte
}

func (c cell) String() string {
	switch c.length {
	case sqlgen.NullLength:
		return "NULL"
	case sqlgen.UnsentLength:
		return "UNSENT"
	case sqlgen.UnavailableLength:
		return "UNAVAILABLE"
	}
	return string(c.data)
}

// decodeRow splits an encoded row; see package sqlgen's text on rows.
func decodeRow(b []byte) ([]cell, error) {
	var out []cell
	for len(b) > 0 {
		if len(b) < 4 {
			return nil, errors.New("row ends within a length")
		}
		n := int32(uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3]))
		b = b[4:]
		c := cell{length: n}
		if n >= 0 {
			if int(n) > len(b) {
				return nil, errors.New("row ends within a value")
			}
			c.data = bytes.Clone(b[:n])
			b = b[n:]
		}
		out = append(out, c)
	}
	return out, nil
}

var _ sqlgen.Evolver = Dialect{}

// Evolve plans one statement, or none where the table is as it is to be.
func (Dialect) Evolve(e sqlgen.Evolution) sqlgen.Plan {
	plan := func(kind sqlgen.DDLKind, d definition) sqlgen.Plan {
		return sqlgen.Plan{Statements: []sqlgen.DDL{{Kind: kind, SQL: d.sql()}}}
	}
	switch {
	case e.Policy == schema.Ignore:
		return sqlgen.Plan{}
	case e.Policy == schema.Stop:
		return sqlgen.Plan{Refused: []*sqlgen.Refusal{{Kind: sqlgen.AddColumn, Table: tableName(e), Err: errors.New("schema.evolve is stop")}}}
	case e.To == nil && e.Current == nil:
		return sqlgen.Plan{}
	case e.To == nil:
		return plan(sqlgen.DropTable, definition{Drop: e.Current.Name})
	case e.Current == nil:
		return plan(sqlgen.CreateTable, definition{Make: *e.To})
	}
	to := withOthers(e)
	if equalShapes(e.Current, &to) {
		return sqlgen.Plan{}
	}
	d := definition{Drop: e.Current.Name, Make: to}
	for _, c := range to.Columns {
		from := c.Name
		for _, r := range e.Renames {
			if r.To == c.Name {
				from = r.From
			}
		}
		d.From = append(d.From, from)
	}
	return plan(sqlgen.ChangeType, d)
}

// withOthers is To with what others have added to the table since it was From: a column that neither knows stays, and so does a type that is not
// From's.
func withOthers(e sqlgen.Evolution) schema.Table {
	to := *e.To
	if e.From == nil {
		return to
	}
	to.Columns = slices.Clone(to.Columns)
	for _, c := range e.Current.Columns {
		was, known := e.From.Column(c.Name)
		i := slices.IndexFunc(to.Columns, func(t schema.Column) bool { return t.Name == c.Name })
		switch {
		case i < 0 && !known:
			to.Columns = append(to.Columns, c)
		case i >= 0 && (!known || was.Type.Kind != c.Type.Kind):
			to.Columns[i].Type = c.Type
		}
	}
	return to
}

func tableName(e sqlgen.Evolution) schema.Name {
	if e.Current != nil {
		return e.Current.Name
	}
	return e.To.Name
}

func equalShapes(a, b *schema.Table) bool {
	return a.Name == b.Name && slices.Equal(a.PrimaryKey, b.PrimaryKey) && slices.EqualFunc(a.Columns, b.Columns, func(x, y schema.Column) bool {
		return x.Name == y.Name && x.Type.Kind == y.Type.Kind && x.Type.Length == y.Type.Length && x.NotNull == y.NotNull
	})
}
