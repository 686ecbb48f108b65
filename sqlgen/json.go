package sqlgen

import (
	"encoding/json"
	"fmt"
	"strconv"

	"replicator/debezium"
	"replicator/schema"
)

// JSON is the dialect of a target that is a log: it holds no rows, and is told what became of them. A statement is a list of
// [Message], whose values are JSON: whole numbers and floating-point numbers are numbers, decimals are texts of their digits, bytes
// are base64, JSON documents stand as they are, and dates and times are ISO 8601.
//
// Statements that change a schema, and those that empty a table, are the JSON of a [TableChange].
type JSON struct{}

var _ Dialect = JSON{}

// Op is what a message says of its row, or of its table.
type Op string

// The ops of rows. A value holds the columns that the source sent: of the others the reader's row keeps what it has.
const (
	OpUpsert  Op = "upsert"  // the row is as the value says
	OpUpdate  Op = "update"  // the row, if there is one, changes in the columns of the value
	OpDelete  Op = "delete"  // the row is gone. In a table with a key there is no value, else it is the row: one that equals it goes
	OpLeave   Op = "leave"   // the row goes to another key: a move of it follows
	OpMove    Op = "move"    // the row comes from another key, and keeps what the value does not hold
	OpInsert  Op = "insert"  // a row of a table without a key
	OpReplace Op = "replace" // in a table without a key: one row that equals the value's before becomes its after
)

// The ops of tables.
const (
	OpTruncate Op = "truncate" // all rows of the table are gone
	OpCreate   Op = "create"   // the table, with its columns
	OpAlter    Op = "alter"    // the table has other columns, another key or another name
	OpDrop     Op = "drop"     // the table is gone, and its rows
)

// opRefuse marks a row that the table's columns do not take: it is no message. Its three parts are a class, a column and why.
const opRefuse Op = "refuse"

// Message is one message of a log.
type Message struct {
	Op    Op
	Key   []byte // {"table": ..., "key": {...}}; without the key for what concerns a table, or a row of one without a key
	Value []byte // the row's columns, or SQL; nil: Kafka's null
	Other []byte // of a leave the key that the row goes to, of a move the one that it comes from; else nil
}

// messageParts is how many arguments of a statement, after the op, are one message.
const messageParts = 3

// Messages returns what a statement of [JSON] or [SQLText] says. Its error is a *RowError for a row that the table's columns do not take.
func Messages(s *Statement) ([]Message, error) {
	op, ok := "", false
	if len(s.Args) > 0 {
		op, ok = s.Args[0].(string)
	}
	if !ok || len(s.Args)%messageParts != 1 {
		return nil, fmt.Errorf("table %s: not a statement of the dialect of a log", s.Table)
	}
	parts := make([][]byte, 0, len(s.Args)-1)
	for _, a := range s.Args[1:] {
		b, ok := a.([]byte)
		if !ok && a != nil {
			return nil, fmt.Errorf("table %s: not a statement of the dialect of a log", s.Table)
		}
		parts = append(parts, b)
	}
	if Op(op) == opRefuse {
		return nil, &RowError{
			Class: Class(parts[0]), Table: s.Table, Column: string(parts[1]), Origin: s.Origin(0), Err: fmt.Errorf("%s", parts[2]),
		}
	}
	out := make([]Message, 0, len(parts)/messageParts)
	for ; len(parts) > 0; parts = parts[messageParts:] {
		out = append(out, Message{Op: Op(op), Key: parts[0], Value: parts[1], Other: parts[2]})
	}
	return out, nil
}

// TableChange is a change of a table's schema in a log.
type TableChange struct {
	Op      Op              `json:"op"`
	Name    schema.Name     `json:"name"`              // before the change
	Table   *schema.Table   `json:"table,omitempty"`   // after it; nil: it has no columns any more, or the same
	Renames []schema.Rename `json:"renames,omitempty"` // columns, all at once
	SQL     string          `json:"sql,omitempty"`     // of [SQLText]
}

func (c TableChange) sql() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(fmt.Sprintf("a table is always JSON: %v", err))
	}
	return string(b)
}

// ParseTableChange reads what [JSON] wrote.
func ParseTableChange(sql string) (TableChange, error) {
	var c TableChange
	if err := json.Unmarshal([]byte(sql), &c); err != nil {
		return c, fmt.Errorf("not a change of a table in the dialect of a log: %w", err)
	}
	switch {
	case c.Op == OpCreate && c.Table != nil, c.Op == OpAlter && c.Table != nil, c.Op == OpDrop, c.Op == OpTruncate:
		return c, nil
	}
	return c, fmt.Errorf("not a change of a table in the dialect of a log: op %q", c.Op)
}

// Quote quotes as JSON does.
func (JSON) Quote(ident string) string { return strconv.Quote(ident) }

// ShortName returns name: there is no limit.
func (JSON) ShortName(name string) string { return name }

// TargetTable returns the source's table with its own types. What only a database can keep is left out: indexes,
// generated columns, whose values are sent, and references. Defaults are in the source's words, for readers.
func (JSON) TargetTable(source schema.Table, as schema.Name, _ Options) (schema.Table, error) {
	out := schema.Table{Name: as, PrimaryKey: source.PrimaryKey, Comment: source.Comment}
	for _, c := range source.Columns {
		out.Columns = append(out.Columns, schema.Column{Name: c.Name, Type: c.Type, NotNull: c.NotNull, Default: c.Default, Comment: c.Comment})
	}
	return out, nil
}

// CreateTable returns the statement that tells of t.
func (JSON) CreateTable(t schema.Table) []string {
	return []string{TableChange{Op: OpCreate, Name: t.Name, Table: &t}.sql()}
}

// Encoder implements Dialect. The value is JSON's text.
func (JSON) Encoder(f debezium.Field, witness schema.Type, t schema.Name, c schema.Column, o Options) (Encoder, error) {
	meant, err := meaningOf(f, witness, c)
	if err != nil {
		return nil, err
	}
	meant.form = o.Decimals
	e := &jsonEncoder{encoding: encoding{field: f, m: meant, table: t, column: c, options: o, nul: true}}
	return Encoder(e.appender()), nil
}

// Statements implements Dialect.
func (JSON) Statements(t *Target, c Changes) []Statement {
	w := jsonWriter{t: t, names: make([][]byte, len(t.Columns))}
	for i, col := range t.Columns {
		w.names[i] = append(jsonText(col.Name), ':')
	}
	w.table = append([]byte(`{"table":`), jsonText(t.Table.Name.String())...)
	if c.Truncate {
		w.out = append(w.out, Statement{
			Table: t.Table.Name, Kind: TruncateTable, SQL: TableChange{Op: OpTruncate, Name: t.Table.Name}.sql(), Want: -1,
			Args: []any{string(OpTruncate), w.key(nil), nil, nil}, Origin: func(int) Origin { return Origin{} },
		})
	}
	if len(t.Key) == 0 {
		w.rows(DeleteRows, OpDelete, len(c.Deletes), func(i int) Row { return c.Deletes[i] }, nil)
		w.replacements(c.Replacements)
		w.rows(InsertRows, OpInsert, len(c.Inserts), func(i int) Row { return c.Inserts[i] }, nil)
		return w.out
	}
	w.deletes(c.Deletes)
	w.moves(c.Moves)
	w.rows(UpdateRows, OpUpdate, len(c.Updates), func(i int) Row { return c.Updates[i] }, nil)
	w.rows(UpdateRows, OpUpdate, len(c.Marks), func(i int) Row { return c.Marks[i] }, nil)
	w.rows(UpsertRows, OpUpsert, len(c.Upserts), func(i int) Row { return c.Upserts[i] }, nil)
	return w.out
}

// jsonText returns s as a text of JSON.
func jsonText(s string) []byte {
	b, err := new(encoding).appendJSONString(nil, s)
	if err != nil {
		panic(fmt.Sprintf("a text is always JSON: %v", err))
	}
	return b
}
