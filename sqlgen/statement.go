package sqlgen

import (
	"fmt"
	"io"
	"strings"

	"replicator/debezium"
	"replicator/schema"
)

// Statement is one SQL statement that carries many rows.
type Statement struct {
	Table schema.Name
	Kind  StatementKind
	SQL   string
	Args  []any // what the dialect's driver takes; for PostgreSQL each is an [Array], for MySQL there are none
	Rows  int   // how many rows it carries; 0 for Truncate
	Want  int64 // rows that it must affect, or the target does not hold what the source says; -1: any number

	// Origin says which record asked for row i; for errors.
	Origin func(i int) Origin
	// Slice returns the same statement for the rows [i, j): how a sink finds the one row that the database refuses.
	// It is nil when Rows < 2.
	Slice func(i, j int) Statement

	// Instead makes statements of the same effect that always do, for one that is faster and may not do: the sink runs
	// them when it affects fewer rows than Want or, having undone it, when it has Data and is refused or warned of. nil: there
	// are none.
	Instead func() []Statement
	// Data is what the statement reads, as PostgreSQL's COPY and MySQL's LOAD DATA do; nil: nothing. Such a statement has no
	// Args, Origin and Slice.
	Data func() io.Reader
	// Exchange is shared by the statements of a table that a unique index can refuse because rows trade its values; nil:
	// the statement is none of them.
	Exchange *Exchange
	// Scans says that no index of the table serves the statement, so the server had better read the table once.
	Scans bool
}

// Exchange is another way to write a table's changes but for its deletes, for when a unique index refuses a value that
// another row of the batch is to give up: rows that trade values cannot be changed one after the other. The sink undoes
// the batch, and runs it again with Statements in place of all statements that have this Exchange. They remove the rows
// and insert them again, so they are for sessions only in which that sets off nothing else.
type Exchange struct{ Statements func() []Statement }

// StatementKind is what a statement does.
type StatementKind uint8

// The kinds of statements.
const (
	TruncateTable StatementKind = iota + 1 // remove all rows
	DeleteRows                             // remove rows by key, or one matching row each in a table without a key
	MoveRows                               // change keys
	UpdateRows                             // change some columns of existing rows
	UpsertRows                             // insert or replace rows by key
	InsertRows                             // add rows to a table without a key
)

// Origin names the record that a row came from, for errors.
type Origin struct {
	Partition debezium.Partition
	Offset    int64
	Key       string // the row's key for people, as in "id=5"; empty for a table without one
}

func (o Origin) String() string {
	if o.Key == "" {
		return fmt.Sprintf("%v offset %d", o.Partition, o.Offset)
	}
	return fmt.Sprintf("%v offset %d, key %s", o.Partition, o.Offset, o.Key)
}

// Class says what is wrong with a record or a value, in words that operators and scripts can match.
type Class string

// The classes.
const (
	BadRecord        Class = "bad_record"         // cannot be decoded
	InvalidValue     Class = "invalid_value"      // not a value of the column's type
	OutOfRange       Class = "value_out_of_range" //
	TooLarge         Class = "value_too_large"    // longer than the column
	Unstorable       Class = "unstorable_value"   // the target has no such value (NUL in text, NaN in an integer)
	NotNullViolation Class = "not_null_violation"
	UniqueViolation  Class = "unique_violation"
	KeyCollision     Class = "key_collision" // another row's key is the same to the column's collation
	ForeignKey       Class = "foreign_key_violation"
	CheckViolation   Class = "check_violation"
	MissingColumn    Class = "missing_column"    // the target's table lacks it
	AmbiguousColumn  Class = "ambiguous_column"  // two columns of the target fit
	UnknownTable     Class = "unknown_table"     // the target lacks it and schema.create is off
	KeyMismatch      Class = "key_mismatch"      // the event lacks a column of the target's key
	UnsupportedType  Class = "unsupported_type"  // no lossless way from the event's type to the column's
	UnavailableValue Class = "unavailable_value" // the source did not send it, and the target has no row that holds it
	TruncateRefused  Class = "truncate_refused"  // the source's table was truncated, and the rule for it is to stop
	MissingRow       Class = "missing_row"       // an update or delete found no row in a table without a key
)

// RowError is a record or a value that cannot be applied. It will not pass by trying again.
type RowError struct {
	Class  Class
	Table  schema.Name
	Column string // empty: the whole row
	Origin Origin
	Err    error // what was wrong, without the value itself
}

func (e *RowError) Error() string {
	var where []string
	if e.Table.Table != "" { // else the record could not be read so far
		where = append(where, "table "+e.Table.String())
	}
	if e.Column != "" {
		where = append(where, "column "+e.Column)
	}
	if e.Origin.Partition.Topic != "" { // else it is the whole transaction, or the table itself
		where = append(where, e.Origin.String())
	}
	return fmt.Sprintf("%s: %s: %v", e.Class, strings.Join(where, ", "), e.Err)
}

func (e *RowError) Unwrap() error { return e.Err }
