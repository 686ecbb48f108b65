package mysqlddl

import (
	"fmt"

	"replicator/schema"
)

// ParseError is a statement that cannot be read.
type ParseError struct {
	SQL      string // the statement
	Position int    // in bytes, from the beginning of the text that Parse was given
	Err      error
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("read the statement at byte %d of the schema change: %v: %s", e.Position, e.Err, abbreviate(e.SQL))
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

// Parse returns what the statements of sql do, in their order: one Change for each table that a statement touches. Tables
// that are named without a database are in database. Comments are passed over, and conditional ones (/*! ... */) read. Its
// error is a *ParseError for the first statement that cannot be read, and the changes are then those of the statements before it.
func Parse(sql, database string) ([]schema.Change, error) {
	return nil, &ParseError{SQL: sql, Err: fmt.Errorf("not read yet")}
}
