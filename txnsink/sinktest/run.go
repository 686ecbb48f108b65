package sinktest

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// Harness is one empty database and what the suite asks of it beside a sink.
type Harness struct {
	// Open opens a sink for a pipeline, as another process would. The suite does not close what it opens.
	Open func(t *testing.T, pipeline string) txnsink.Sink
	// Rows returns a table's committed rows: each its values as text joined by "|" (NULL for null), sorted.
	Rows func(t *testing.T, table schema.Name) []string
	// Pipeline is what the suite calls its pipeline (another one's name begins with it). It must be no other
	// harness's where databases share the names of prepared transactions.
	Pipeline string
	// Log says that the target is a log of changes, which holds no rows: a change of a row that is not there is for its readers to
	// see. Rows is then what a reader makes of it.
	Log bool
}

// Run tries a kind of sink. newHarness makes a database of its own for each test.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, h Harness)
	}{
		{"PreparedIsInvisibleUntilItIsCommitted", preparedInvisible},
		{"CommitAndAbortMayBeRepeated", repeated},
		{"CommitInOneStepIsWitnessed", oneStep},
		{"NoteIsKnownWhenItsTransactionIsVisible", notes},
		{"CommitOfWhatNeverWasIsLost", neverWas},
		{"CommitOfWhatSomebodyRolledBackIsLost", rolledBackByHand},
		{"WitnessTellsEpochsOfOneCheckpointApart", sameCheckpoint},
		{"AnotherProcessDecides", anotherProcess},
		{"TwoProcessesMayCommitAtOnce", commitAtOnce},
		{"EmptyTransactionIsWitnessed", emptyTransaction},
		{"AbortLeavesNothing", abortLeavesNothing},
		{"AbortedCheckpointsLeaveTheWitnessInPlace", abortedBetween},
		{"UnsavedCheckpointIsCommittedAgain", unsavedCheckpoint},
		{"AfterAnErrorOnlyAbortFollows", onlyAbort},
		{"RefusedRowIsNamed", refusedRow},
		{"UnavailableValueNeedsItsRow", unavailable},
		{"MissingRowWithoutAKeyIsNamed", missingRow},
		{"NextTransactionMayRunWhileOneIsInDoubt", overlap},
		{"WorkersAreDecidedOneByOne", workers},
		{"FenceIsBusyWhileInDoubt", fenceBusy},
		{"FencedTransactionIsNeitherPreparedNorCommitted", fencedTransaction},
		{"FenceReachesWorkersThatTheNewRunLacks", fenceFewer},
		{"FenceRefusesAnEarlierEpoch", fenceEarlier},
		{"BeginNeedsItsEpochFenced", beginFenced},
		{"OtherPipelinesAreLeftAlone", otherPipelines},
		{"ChangesOfEveryKindAreApplied", everyKind},
		{"TablesAreDefinedOnceAndRead", tables},
		{"DefinitionIsRemembered", remembered},
		{"FencedRunDefinesNothing", fencedDefinition},
		{"DefinitionOfAnotherTableIsOvertaken", overtakenDefinition},
		{"CancelledCallFails", cancelledCall},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(t, newHarness(t))
		})
	}
}

// keyed and keyless are the suite's tables.
var (
	keyed = schema.Table{
		Name: schema.Name{Table: "items"},
		Columns: []schema.Column{
			{Name: "id", Type: schema.Type{Kind: schema.Int64}, NotNull: true},
			{Name: "name", Type: schema.Type{Kind: schema.Text}},
			{Name: "n", Type: schema.Type{Kind: schema.Int64}, NotNull: true},
		},
		PrimaryKey: []string{"id"},
	}
	keyless = schema.Table{
		Name: schema.Name{Table: "log"},
		Columns: []schema.Column{
			{Name: "line", Type: schema.Type{Kind: schema.Text}},
			{Name: "n", Type: schema.Type{Kind: schema.Int64}},
		},
	}
	keyedShape = &debezium.Shape{Name: "items.Value", Fields: []debezium.Field{
		{Name: "id", Type: debezium.Int64},
		{Name: "name", Type: debezium.String, Optional: true},
		{Name: "n", Type: debezium.Int64, Optional: true},
	}}
	keyShape     = &debezium.Shape{Name: "items.Key", Fields: keyedShape.Fields[:1]}
	keylessShape = &debezium.Shape{Name: "log.Value", Fields: []debezium.Field{
		{Name: "line", Type: debezium.String, Optional: true},
		{Name: "n", Type: debezium.Int64, Optional: true},
	}}
)

// process is one process at work on the database: a sink, fenced, and its tables.
type process struct {
	t        *testing.T
	sink     txnsink.Sink
	pipeline string
	epoch    int64
	keyed    *sqlgen.Target
	keyless  *sqlgen.Target
	offset   int64
}

// start opens a sink and defines the tables, without a fence.
func start(t *testing.T, h Harness) *process { return startAs(t, h, h.Pipeline) }

func startAs(t *testing.T, h Harness, pipeline string) *process {
	t.Helper()
	p := &process{t: t, sink: h.Open(t, pipeline), pipeline: pipeline}
	p.keyed, p.keyless = p.define(keyed), p.define(keyless)
	return p
}

// run is start with a fence for two workers.
func run(t *testing.T, h Harness, epoch int64) *process {
	t.Helper()
	p := start(t, h)
	p.fence(epoch)
	return p
}

func (p *process) fence(epoch int64) {
	p.t.Helper()
	if err := p.sink.Fence(p.t.Context(), p.pipeline, epoch, 2); err != nil {
		p.t.Fatalf("fence epoch %d: %v", epoch, err)
	}
	p.epoch = epoch
}

func (p *process) define(source schema.Table) *sqlgen.Target {
	p.t.Helper()
	d := p.sink.Dialect()
	shape, err := d.TargetTable(source, source.Name, sqlgen.Options{})
	if err != nil {
		p.t.Fatal(err)
	}
	if err := p.sink.Define(p.t.Context(), txnsink.Definition{DDL: d.CreateTable(shape)}); err != nil {
		p.t.Fatal(err)
	}
	found, err := p.sink.Table(p.t.Context(), source.Name)
	if err != nil || found == nil {
		p.t.Fatalf("table %s after it was defined: %v, %v", source.Name, found, err)
	}
	target, err := sqlgen.NewTarget(d, *found, sqlgen.TargetConfig{Witness: &source})
	if err != nil {
		p.t.Fatal(err)
	}
	return target
}

func (p *process) id(checkpoint int64, worker int) txnsink.ID {
	return txnsink.ID{Pipeline: p.pipeline, Epoch: p.epoch, Checkpoint: checkpoint, Worker: worker}
}

func (p *process) begin(checkpoint int64, worker int) txnsink.Txn {
	p.t.Helper()
	txn, err := p.sink.Begin(p.t.Context(), p.id(checkpoint, worker))
	if err != nil {
		p.t.Fatal(err)
	}
	if txn.ID() != p.id(checkpoint, worker) {
		p.t.Fatalf("got transaction %v, want %v", txn.ID(), p.id(checkpoint, worker))
	}
	return txn
}

func integer(n int64) debezium.Value { return debezium.Value{Kind: debezium.IntValue, Num: n} }
func text(s string) debezium.Value   { return debezium.Value{Kind: debezium.StringValue, Text: s} }

var null = debezium.Value{Kind: debezium.Null}

// item returns a row of the table with a key.
func item(id int64, name debezium.Value, n debezium.Value) debezium.Row {
	return debezium.Row{Shape: keyedShape, Values: []debezium.Value{integer(id), name, n}}
}

// line returns a row of the table without a key.
func line(s string, n int64) debezium.Row {
	return debezium.Row{Shape: keylessShape, Values: []debezium.Value{text(s), integer(n)}}
}

// key returns a message key.
func key(id int64) debezium.Row {
	return debezium.Row{Shape: keyShape, Values: []debezium.Value{integer(id)}}
}

// put returns an event that sets a row of the table with a key.
func put(id int64, name string, n int64) debezium.Event {
	return debezium.Event{Op: debezium.Create, Key: key(id), After: item(id, text(name), integer(n))}
}

// fold returns the statements for events on one table, with rising offsets.
func (p *process) fold(target *sqlgen.Target, events ...debezium.Event) []sqlgen.Statement {
	p.t.Helper()
	b := sqlgen.NewBatch(p.sink.Dialect())
	for _, e := range events {
		e.Partition, e.Offset = debezium.Partition{Topic: "topic", ID: 3}, p.offset
		p.offset++
		if err := b.Add(target, &e); err != nil {
			p.t.Fatal(err)
		}
	}
	return b.Statements()
}

// apply applies events to the table with a key.
func (p *process) apply(txn txnsink.Txn, events ...debezium.Event) {
	p.t.Helper()
	if err := txn.Apply(p.t.Context(), p.fold(p.keyed, events...)); err != nil {
		p.t.Fatal(err)
	}
}

// prepare runs a whole transaction up to its being in doubt.
func (p *process) prepare(checkpoint int64, worker int, events ...debezium.Event) txnsink.ID {
	p.t.Helper()
	txn := p.begin(checkpoint, worker)
	p.apply(txn, events...)
	if err := txn.PreCommit(p.t.Context()); err != nil {
		p.t.Fatal(err)
	}
	return txn.ID()
}

// commit commits a prepared transaction.
func (p *process) commit(id txnsink.ID) {
	p.t.Helper()
	if err := p.sink.Commit(p.t.Context(), id); err != nil {
		p.t.Fatal(err)
	}
}

// checkpoint runs a whole transaction up to its being visible.
func (p *process) checkpoint(number int64, worker int, events ...debezium.Event) {
	p.t.Helper()
	p.commit(p.prepare(number, worker, events...))
}

func (p *process) pending() []txnsink.ID {
	p.t.Helper()
	list, err := p.sink.Pending(p.t.Context(), p.pipeline)
	if err != nil {
		p.t.Fatal(err)
	}
	out := []txnsink.ID{}
	for _, e := range list {
		if e.AgeSeconds < 0 || e.AgeSeconds > 3600 {
			p.t.Errorf("transaction %v is %v seconds old", e.ID, e.AgeSeconds)
		}
		out = append(out, e.ID)
	}
	slices.SortFunc(out, func(a, b txnsink.ID) int { return strings.Compare(a.String(), b.String()) })
	return out
}

func (p *process) wantPending(want ...txnsink.ID) {
	p.t.Helper()
	if got := p.pending(); !slices.Equal(got, want) {
		p.t.Errorf("in doubt: got %v, want %v", got, want)
	}
}

func wantRows(t *testing.T, h Harness, table schema.Table, want ...string) {
	t.Helper()
	if got := h.Rows(t, table.Name); !slices.Equal(got, want) {
		t.Errorf("table %s: got %q, want %q", table.Name, got, want)
	}
}

func wantError(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got error %v, want %v", what, err, want)
	}
}

func wantNoError(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

func cancelledContext(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// rowError returns err as a *sqlgen.RowError.
func rowErrorOf(t *testing.T, err error) *sqlgen.RowError {
	t.Helper()
	var row *sqlgen.RowError
	if !errors.As(err, &row) {
		t.Fatalf("got error %v, want a *sqlgen.RowError", err)
	}
	if !txnsink.Permanent(err) {
		t.Errorf("error %v does not count as permanent", err)
	}
	return row
}
