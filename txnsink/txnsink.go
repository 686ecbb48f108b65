package txnsink

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"replicator/schema"
	"replicator/sqlgen"
)

// ID names one transaction of one pipeline. It is never used twice: an epoch uses a checkpoint number once.
type ID struct {
	Pipeline   string `json:"pipeline"`
	Epoch      int64  `json:"epoch"`
	Checkpoint int64  `json:"checkpoint"`
	Worker     int    `json:"worker"`
}

func (id ID) String() string {
	return fmt.Sprintf("%s:%d:%d:%d", id.Pipeline, id.Epoch, id.Checkpoint, id.Worker)
}

// Txn is one open transaction. It belongs to one goroutine at a time.
type Txn interface {
	// ID is the one that Begin was given.
	ID() ID
	// Apply runs the statements in order. After an error only Abort may follow, on every database.
	// A statement that the database refuses because of a row's data is a *sqlgen.RowError that names the row.
	Apply(ctx context.Context, batch []sqlgen.Statement) error
	// PreCommit writes the witness and makes the transaction durable, invisible, and known from here on by its ID
	// alone. After an error its outcome is not known; Pending tells.
	PreCommit(ctx context.Context) error
	// Commit writes the witness, with note, and makes the transaction durable and visible in one step. For use
	// without PreCommit. After an error its outcome is not known; Notes tells, if there was a note.
	Commit(ctx context.Context, note []byte) error
	// Abort rolls an unprepared transaction back. It is safe after any error, and after PreCommit or Commit it does
	// nothing to what was prepared or committed.
	Abort(ctx context.Context) error
}

// Prepared is a transaction in doubt.
type Prepared struct {
	ID         ID
	AgeSeconds float64 // since it was prepared, by the target's clock
}

// Note is what a worker's last committed transaction left in its witness.
type Note struct {
	Worker     int
	Epoch      int64  // that may write next, as Fence gave it; not of that transaction
	Checkpoint int64  // of that transaction
	Text       []byte // as Commit was given it; nil: the transaction was prepared, or had none
}

// Definition is DDL, and what is to be remembered of it in the target's own tables.
type Definition struct {
	Pipeline string
	Epoch    int64     // of the run that defines; 0: it belongs to no run, and nothing fences it
	DDL      []string  // statements, in order
	Defined  []Defined // each replaces what was remembered of its Source
	Of       *Planned  // what DDL was planned for; nil: it may be run on any table
}

// Planned is a table of the target as [Sink.Table] had it when a definition was planned.
type Planned struct {
	Name  schema.Name
	Table *schema.Table // nil: there was none
}

// Still returns ErrOvertaken if the table is another one now.
func (p *Planned) Still(now *schema.Table) error {
	if reflect.DeepEqual(p.Table, now) {
		return nil
	}
	return fmt.Errorf("%w: table %v is not what it was when its change was planned", ErrOvertaken, p.Name)
}

// Relabelled is p when labels of its columns' enum types were added, so that they are now's; all else is still to be as it was.
func (p *Planned) Relabelled(now *schema.Table) *Planned {
	if p.Table == nil || now == nil {
		return p
	}
	t := *p.Table
	t.Columns = slices.Clone(t.Columns)
	for i := range t.Columns {
		if c, ok := now.Column(t.Columns[i].Name); ok {
			t.Columns[i].Type.Values = c.Type.Values
		}
	}
	return &Planned{p.Name, &t}
}

// Defined is what the target remembers of one source table.
type Defined struct {
	Source string      // the source's table
	Target schema.Name // the target's table
	State  string      // JSON, of which the sink knows nothing: see package checkpoint
}

// Sink is the transactions and the catalog of one target database. It is safe for concurrent use.
type Sink interface {
	// Fence gives the pipeline's workers 0..workers-1 to epoch: from now on no transaction of an earlier epoch can be
	// prepared or committed in one step. It ends earlier epochs' sessions where it can. While one of them is in
	// doubt, or still at work, it fails with ErrBusy. If a later epoch has fenced already: ErrFenced.
	Fence(ctx context.Context, pipeline string, epoch int64, workers int) error

	// Begin opens a transaction. One transaction a worker may be open at a time; the previous one may be in doubt.
	Begin(ctx context.Context, id ID) (Txn, error)

	// Commit commits a prepared transaction. Doing it twice is fine. If it is neither prepared nor witnessed: ErrLost.
	Commit(ctx context.Context, id ID) error
	// Abort rolls a prepared transaction back. One that does not exist is fine.
	Abort(ctx context.Context, id ID) error
	// Pending lists the pipeline's prepared transactions, of every epoch.
	Pending(ctx context.Context, pipeline string) ([]Prepared, error)
	// Notes returns the witness of every worker of the pipeline, also of those that this run does not have, by
	// worker. Only after Fence is it sure that nobody changes them.
	Notes(ctx context.Context, pipeline string) ([]Note, error)

	// Dialect is the SQL that Apply takes.
	Dialect() sqlgen.Dialect
	// Table reads a table's shape from the catalog; nil: there is none.
	Table(ctx context.Context, name schema.Name) (*schema.Table, error)
	// Define changes the schema, outside of any Txn. Where the database's DDL is transactional, all of d takes effect or
	// none of it; elsewhere what it remembers comes last, so that after a crash the same may be defined again.
	// If a later epoch has fenced the pipeline: ErrFenced, and nothing is changed.
	Define(ctx context.Context, d Definition) error
	// Defined returns what the pipeline's definitions had remembered, by source.
	Defined(ctx context.Context, pipeline string) ([]Defined, error)

	Close() error
}

// The errors that a caller branches on.
var (
	// ErrFenced: a later epoch of the pipeline is at work; this process must do nothing more.
	ErrFenced = errors.New("fenced by a later run of this pipeline")
	// ErrLost: a transaction that a saved checkpoint decided to commit exists no more and was never committed.
	ErrLost = errors.New("transaction lost")
	// ErrOvertaken: another process has changed a table since a definition of it was planned. A new plan finds what it is now.
	ErrOvertaken = errors.New("overtaken")
	// ErrBusy: something that will pass holds what is needed.
	ErrBusy = errors.New("busy")
)

// Permanent says whether err will come again however often the same is tried: the configuration, the target's
// settings or the data must change first.
func Permanent(err error) bool {
	var p interface{ Permanent() bool }
	if errors.As(err, &p) {
		return p.Permanent()
	}
	var row *sqlgen.RowError
	return errors.As(err, &row) || errors.Is(err, ErrFenced) || errors.Is(err, ErrLost)
}
