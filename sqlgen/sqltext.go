package sqlgen

import "replicator/schema"

// SQLText is the dialect of a log whose messages are SQL of MySQL's and MariaDB's, complete with values: to be run one after the
// other, in the order of the log, by sessions as [MySQL] asks for. A change of a schema is a [TableChange] with its statement.
type SQLText struct{ MySQL }

var (
	_ Dialect       = SQLText{}
	_ Canonicalizer = SQLText{}
	_ Evolver       = SQLText{}
)

// textOps are the ops of messages by what their statement does.
var textOps = map[StatementKind]Op{
	TruncateTable: OpTruncate, DeleteRows: OpDelete, MoveRows: OpMove, UpdateRows: OpUpdate, UpsertRows: OpUpsert, InsertRows: OpInsert,
}

// CreateTable implements Dialect.
func (d SQLText) CreateTable(t schema.Table) []string {
	return []string{TableChange{Op: OpCreate, Name: t.Name, Table: &t, SQL: d.MySQL.CreateTable(t)[0]}.sql()}
}

// Statements implements Dialect. Each is one message.
func (d SQLText) Statements(t *Target, c Changes) []Statement {
	list := d.MySQL.Statements(t, c)
	out := make([]Statement, len(list))
	for i, s := range list {
		op := textOps[s.Kind]
		out[i] = Statement{
			Table: s.Table, Kind: s.Kind, SQL: string(op) + " " + s.Table.String(), Rows: s.Rows, Want: -1, Origin: s.Origin,
			Args: []any{string(op), []byte(`{"table":` + string(jsonText(s.Table.String())) + `}`), []byte(s.SQL), nil},
		}
		if s.Kind == TruncateTable {
			out[i].SQL = TableChange{Op: OpTruncate, Name: s.Table, SQL: s.SQL}.sql()
		}
	}
	return out
}

// Evolve implements Evolver. MySQL's plan is one statement, or none.
func (d SQLText) Evolve(e Evolution) Plan {
	plan := d.MySQL.Evolve(e)
	for i := range plan.Statements {
		s := &plan.Statements[i]
		c := TableChange{SQL: s.SQL}
		switch {
		case e.To == nil:
			c.Op, c.Name = OpDrop, e.Current.Name
		case e.Current == nil:
			c.Op, c.Name, c.Table = OpCreate, e.To.Name, e.To
		default:
			after, _ := jsonEvolved(e)
			c.Op, c.Name, c.Table, c.Renames = OpAlter, e.Current.Name, &after, e.Renames
		}
		s.SQL = c.sql()
	}
	return plan
}
