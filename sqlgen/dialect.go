package sqlgen

import (
	"replicator/debezium"
	"replicator/schema"
)

// The lengths of an encoded value that has no bytes; see the package's text on rows.
const (
	NullLength        = -1 // NULL
	UnsentLength      = -2 // the event has no such column: an insert takes the column's default, an update keeps what is stored
	UnavailableLength = -3 // the event has the column but not its value: the stored row keeps it, and must be there
)

// Encoder appends the canonical bytes of v to dst. It is called for present values only: never for Absent, Null or
// Unavailable. Its error is a *ValueError.
type Encoder func(dst []byte, v *debezium.Value) ([]byte, error)

// ValueError is a value that the column cannot hold. The fold adds where it came from and makes it a [RowError].
type ValueError struct {
	Class Class
	Err   error
}

func (e *ValueError) Error() string { return string(e.Class) + ": " + e.Err.Error() }
func (e *ValueError) Unwrap() error { return e.Err }

// Options are what the configuration says about types and values.
type Options struct {
	Boolean string // schema.types.boolean: tinyint1 (smallint) or boolean: what TINYINT(1) becomes
	Time    string // schema.types.time: interval or time
	JSON    string // schema.types.json: jsonb or json
	Enum    string // schema.types.enum: text or enum: what ENUM and SET become on PostgreSQL
	Nul     string // schema.types.nul: stop, strip or replace (by U+FFFD); "" is stop

	// Binary is source.binary: base64 (or ""), base64-url-safe or hex: how bytes are written where they come as text,
	// with or without a schema. Where a schema says that a field is bytes, it is always base64.
	Binary string

	// TimePrecision is source.time_precision: auto (or ""), adaptive or connect. It says in which unit a source sends
	// TIME and DATETIME values that come without a schema; see TimeUnits.
	TimePrecision string
	// Units collects the evidence for TimePrecision auto: one per pipeline, shared by its tables. It may be nil, and
	// then each column learns by itself.
	Units *TimeUnits
	// Decimals is how decimals come that have no schema: one per pipeline. It may be nil.
	Decimals *DecimalForm

	// Changed is called for each value that Nul strip or replace altered. It may be nil.
	Changed func(table schema.Name, column string)
	// Cut is called for each time of which nanoseconds were cut off. It may be nil.
	Cut func(table schema.Name, column string)
	// Unknown is called for a semantic name that is not known here, whose values are taken by their primitive type: once
	// for each layout of a table's events. It may be nil.
	Unknown func(table schema.Name, column, name string)
	// Unlabelled is called for an ENUM that becomes text although Enum says otherwise, each time that its table is looked at, with the
	// reason. It may be nil.
	Unlabelled func(table schema.Name, column, why string)
}

// Dialect is one kind of target database. Implementations are stateless and safe for concurrent use.
type Dialect interface {
	// Quote returns ident as an identifier of the dialect.
	Quote(ident string) string

	// TargetTable returns the table that holds the rows of source without loss: its columns' types are the
	// dialect's, and its names are within the dialect's limit (see ShortName).
	TargetTable(source schema.Table, as schema.Name, o Options) (schema.Table, error)

	// CreateTable returns the statements that create t, which TargetTable made.
	CreateTable(t schema.Table) []string

	// ShortName returns name, or a distinct name in its place where name is longer than the dialect allows.
	// It is a function of name alone.
	ShortName(name string) string

	// Encoder returns how values of field f become values of column c. witness is the source column's own type
	// where a schema-change record told it, else the zero Type. Its error is a *ValueError of class UnsupportedType.
	Encoder(f debezium.Field, witness schema.Type, t schema.Name, c schema.Column, o Options) (Encoder, error)

	// Statements writes the changes of one table, in an order that is right for that table.
	Statements(t *Target, c Changes) []Statement
}

// Implier is a Dialect that knows what rows have in a column that was added NOT NULL and without a default when they were there.
type Implier interface {
	// Implicit returns the encoded value for a column of the type t that is of the type source at the source; nil: it is not known.
	Implicit(source, t schema.Type) []byte
}

// Canonicalizer is a Dialect whose encoders keep more than equality sees, such as the zeros after the point of 1.50.
// The fold compares what Canonical makes of a value; a Dialect that is none has canonical encoders throughout.
type Canonicalizer interface {
	// Canonical returns a function that appends value, made by the Encoder of c, to dst in the form that all values
	// equal to it share, or nil if the encoded bytes have that property already.
	Canonical(c schema.Column) func(dst, value []byte) []byte
}
