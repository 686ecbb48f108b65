package mysqlddl

import (
	"errors"
	"fmt"
	"sync"

	"vitess.io/vitess/go/vt/sqlparser"

	"replicator/schema"
)

// ParseError is a statement that cannot be read.
type ParseError struct {
	SQL      string // the statement, without its comments
	Position int    // in bytes, from the beginning of the text that Parse was given, of what cannot be read
	Err      error
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("read the schema change at byte %d: %v: %s", e.Position, e.Err, abbreviate(e.SQL))
}

func (e *ParseError) Unwrap() error { return e.Err }

// maxShown bounds how much of a statement an error shows.
const maxShown = 300

func abbreviate(sql string) string {
	if len(sql) <= maxShown {
		return sql
	}
	return sql[:maxShown] + "..."
}

// parser has no state between statements.
var parser = sync.OnceValues(func() (*sqlparser.Parser, error) {
	return sqlparser.New(sqlparser.Options{MySQLServerVersion: "8.4.0"})
})

// Parse returns what the statements of text do, in their order: one Change for each table that a statement touches. Tables
// that are named without a database are in database. Comments are passed over, and conditional ones (/*! ... */) read. Its
// error is a *ParseError for the first statement that cannot be read, and the changes are then those of the statements before it.
func Parse(text, database string) ([]schema.Change, error) {
	var out []schema.Change
	for _, s := range split(text) {
		if s.ignored {
			out = append(out, schema.Change{Kind: schema.Ignored, Statement: s.kind})
			continue
		}
		changes, err := s.parse(database)
		if err != nil {
			return out, err
		}
		out = append(out, changes...)
	}
	return out, nil
}

var (
	errUnknownVerb = errors.New("the statement is none of MySQL's that this program knows")
	errPartly      = errors.New("the statement can be read in part only")
)

// parse reads one statement. Vitess reads more than MySQL does (its own statements), and of some statements only the
// beginning; neither is taken.
func (s *statement) parse(database string) ([]schema.Change, error) {
	if s.unknown {
		return nil, &ParseError{SQL: s.sql, Position: s.position, Err: errUnknownVerb}
	}
	p, err := parser()
	if err != nil {
		return nil, &ParseError{SQL: s.sql, Position: s.position, Err: err}
	}
	tree, err := p.ParseStrictDDL(s.read)
	if err != nil {
		at := 0
		var positioned sqlparser.PositionedErr
		if errors.As(err, &positioned) { // at the byte after the one that follows the word
			at = min(max(positioned.Pos-1-len(positioned.Near), 0), len(s.sql))
			err = errors.New(positioned.Err)
		}
		return nil, &ParseError{SQL: s.sql, Position: s.position + at, Err: err}
	}
	r := reader{database: database}
	switch t := tree.(type) {
	case *sqlparser.CreateTable:
		if s.replaces {
			r.add(schema.Change{Kind: schema.DropTable, Table: r.name(t.Table)})
		}
		r.create(t)
	case *sqlparser.AlterTable:
		r.alter(t, s.kind)
	case *sqlparser.DropTable:
		for _, name := range t.FromTables {
			r.add(schema.Change{Kind: schema.DropTable, Table: r.name(name)})
		}
	case *sqlparser.RenameTable:
		for _, pair := range t.TablePairs {
			r.add(schema.Change{Kind: schema.RenameTable, Table: r.name(pair.FromTable), NewName: r.name(pair.ToTable)})
		}
	case *sqlparser.TruncateTable:
		r.add(schema.Change{Kind: schema.TruncateTable, Table: r.name(t.Table)})
	default:
		return nil, &ParseError{SQL: s.sql, Position: s.position, Err: errUnknownVerb}
	}
	if d, ok := tree.(sqlparser.DDLStatement); !ok || !d.IsFullyParsed() {
		return nil, &ParseError{SQL: s.sql, Position: s.position, Err: errPartly}
	}
	return r.changes, nil
}
