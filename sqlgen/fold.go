package sqlgen

import (
	"replicator/debezium"
	"replicator/schema"
)

// Target is a table of the target database, ready to be written. It belongs to one goroutine.
type Target struct {
	Table   schema.Table    // from the catalog
	Columns []schema.Column // those that are written, in row order; generated ones are left out
	Key     []int           // indexes into Columns; empty: a table without a key
}

// TargetConfig is what a Target is made from, apart from the catalog's table.
type TargetConfig struct {
	Witness *schema.Table // the source's table as a schema-change record told it; nil: not known
	Key     []string      // the key to match rows by; empty: the table's primary key
	Options Options
}

// NewTarget makes a Target. Its error is a *RowError without an Origin.
func NewTarget(d Dialect, t schema.Table, c TargetConfig) (*Target, error) { return nil, nil }

// Row is one encoded row (see the package's text), in Target.Columns order, and the record that it came from.
type Row struct {
	Data      []byte
	Partition debezium.Partition
	Offset    int64
}

// Move is a row whose key changes: it is found by OldKey, encoded like a Row of the key columns alone in Target.Key
// order, and becomes Row.
type Move struct {
	OldKey []byte
	Row    Row
}

// Replacement is one row of a table without a key that changes: one row equal to Before becomes After.
type Replacement struct{ Before, After Row }

// Changes is what a batch folds to for one table. They are to be written in the order of the fields; no two of
// Deletes, Moves, Updates and Upserts mean the same row.
type Changes struct {
	Truncate bool  // remove every row first
	Deletes  []Row // of key columns alone in Target.Key order; in a table without a key whole rows, one row each
	Moves    []Move
	Updates  []Row // rows with unavailable values: they exist and keep these
	Upserts  []Row // in a table with a key

	Replacements []Replacement // in a table without a key
	Inserts      []Row         // in a table without a key
}

// Batch folds events of any number of tables. It belongs to one goroutine.
type Batch struct{}

// NewBatch returns an empty batch.
func NewBatch(d Dialect) *Batch { return nil }

// Add folds one event of table t into the batch, copying what it needs: the event's memory may be reused afterwards.
// Its error is a *RowError; after it the batch is good for nothing.
func (b *Batch) Add(t *Target, e *debezium.Event) error { return nil }

// Rows is the number of events added, Bytes the memory that they take.
func (b *Batch) Rows() int  { return 0 }
func (b *Batch) Bytes() int { return 0 }

// Statements writes the batch, tables in an order that suits foreign keys where the catalog told them.
func (b *Batch) Statements() []Statement { return nil }

// Reset empties the batch and keeps its memory.
func (b *Batch) Reset() {}
