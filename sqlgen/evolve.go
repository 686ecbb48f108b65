package sqlgen

import (
	"errors"
	"fmt"

	"replicator/schema"
)

// Evolver is a Dialect that can change a table after its source's.
type Evolver interface {
	// Evolve returns the statements that bring the target's table from one shape of the source's to the next.
	//
	// It looks at the target's table and touches only what differs between From and To: what is already as To has it is not
	// done again, so the same Evolution may be planned again after any prefix of its statements has run; and columns, types,
	// indexes and defaults that somebody else chose in the target stay. The statements are to run in order, and each is
	// whole by itself; in one transaction where the database has transactions for them.
	Evolve(e Evolution) Plan
}

// Evolution is one step of a table: from a version of the source's table to the next.
type Evolution struct {
	Current *schema.Table   // the target's table in its catalog, under its old or its new name; nil: there is none
	From    *schema.Table   // what TargetTable made of the source's table before; nil: the table is new
	To      *schema.Table   // and afterwards; nil: the table was dropped. A name that differs from From's is a rename
	Renames []schema.Rename // columns that were renamed at once, by From's and To's names
	// Replaced are the columns of From that were dropped while another was added under the same name: no value carries over.
	// When planned again after it has run, such a step does so once more, with the same end.
	Replaced []string
	Policy   schema.Policy
	// Complete makes what the source has and the target lacks although From had it: columns, the key, indexes, NOT NULL, defaults
	// and types that are too narrow. It is for a plan that somebody asked for, not for following a change.
	Complete bool

	// Source is the source's table afterwards, as [Rules.Arrange] has it and in the order of To's columns. It tells what To
	// cannot: defaults that mean nothing to the target, and the labels of an ENUM. Nil: it is not known.
	Source *schema.Table
}

// Plan is what Evolve answers.
type Plan struct {
	Statements []DDL
	Refused    []*Refusal // if there are any, nothing is to be run
	Kept       []Kept     // what the target keeps in spite of the change, by policy or for want of a way; for logs and metrics
}

// Err returns what was refused as one error, or nil.
func (p *Plan) Err() error {
	errs := make([]error, len(p.Refused))
	for i, r := range p.Refused {
		errs[i] = r
	}
	return errors.Join(errs...)
}

// DDL is a statement that changes a schema.
type DDL struct {
	Kind DDLKind
	SQL  string
}

// DDLKind is what a DDL statement does, in the words of metrics.
type DDLKind string

// The kinds of DDL. Check is a statement that changes nothing, and fails if what follows would lose a value.
const (
	CreateTable   DDLKind = "create_table"
	DropTable     DDLKind = "drop_table"
	RenameTable   DDLKind = "rename_table"
	AddColumn     DDLKind = "add_column"
	DropColumn    DDLKind = "drop_column"
	RenameColumn  DDLKind = "rename_column"
	ChangeType    DDLKind = "change_type"
	ChangeNull    DDLKind = "change_null"
	ChangeDefault DDLKind = "change_default"
	ChangeKey     DDLKind = "change_key"
	ChangeAuto    DDLKind = "change_identity"
	ChangeComment DDLKind = "change_comment"
	ChangeVisible DDLKind = "change_visibility"
	CreateIndex   DDLKind = "create_index"
	DropIndex     DDLKind = "drop_index"
	RenameIndex   DDLKind = "rename_index"
	CreateType    DDLKind = "create_type"
	AddLabel      DDLKind = "add_label"
	DropType      DDLKind = "drop_type"
	RenameType    DDLKind = "rename_type"
	Check         DDLKind = "check"
)

// First says whether statements of the kind are to be committed before those of other kinds run, if there are any: PostgreSQL lets a label be
// used when the transaction that adds it has ended. They can come first whatever else a plan does, and stay if the rest of it fails.
func (k DDLKind) First() bool { return k == CreateType || k == AddLabel }

// Refusal is a change that the target must not or cannot follow. It stops the pipeline, and passes when an operator
// changed the rule or the table.
type Refusal struct {
	Kind   DDLKind
	Table  schema.Name
	Column string // empty: the whole table
	Err    error  // why, and what would settle it
}

func (e *Refusal) Error() string {
	where := "table " + e.Table.String()
	if e.Column != "" {
		where += ", column " + e.Column
	}
	return fmt.Sprintf("schema change refused: %s of %s: %v", e.Kind, where, e.Err)
}

func (e *Refusal) Unwrap() error { return e.Err }

// Kept is a part of a change that the target was not made to follow.
type Kept struct {
	Kind   DDLKind
	Column string // or the index's name; empty: the whole table
	Why    string
}
