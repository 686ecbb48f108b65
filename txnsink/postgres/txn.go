package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// txn is an open transaction on its worker's session. BEGIN travels with the first statements.
type txn struct {
	sink    *Sink
	id      txnsink.ID
	session *session
	begun   bool
	fresh   bool  // the next round trip begins an Apply
	applied bool  // the savepoint "apply" is set, before the last Apply
	saved   bool  // within it the savepoint "batch" is set, before the last round trip
	scans   bool  // the planner is free (see plan)
	scanned bool  // what scans was at the savepoint "apply"
	failed  error // why only Abort may follow
	over    bool
}

// ID returns what Begin was given.
func (t *txn) ID() txnsink.ID { return t.id }

// usable says whether something may follow.
func (t *txn) usable() error {
	switch {
	case t.over:
		return fmt.Errorf("transaction %v is over", t.id)
	case t.failed != nil:
		return fmt.Errorf("transaction %v has failed and can only be rolled back: %w", t.id, t.failed)
	}
	return nil
}

// fail notes that only Abort may follow, and says what err means.
func (t *txn) fail(ctx context.Context, err error) error {
	var row *sqlgen.RowError
	if errors.As(err, &row) {
		t.failed = row
		return row
	}
	switch {
	case t.session.conn.IsClosed():
		err = t.sink.explain(ctx, t.id, plain(err))
	case code(err) != "":
		err = plain(err)
	}
	t.failed = err
	return fmt.Errorf("transaction %v: %w", t.id, err)
}

// begin appends BEGIN to a round trip, if it has not been sent. It returns how many statements it appended.
func (t *txn) begin(b *pgconn.Batch) int {
	if t.begun {
		return 0
	}
	t.begun = true
	b.ExecParams("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", nil, nil, nil, nil)
	return 1
}

// witness moves the witness, as the transaction's last statement. The number of a checkpoint may be that of one which an earlier
// epoch committed in one step and could not save; within an epoch it is used once.
func (t *txn) witness(ctx context.Context, note []byte) error {
	const query = `UPDATE replicator.witness SET checkpoint = $1, written = $2, note = $6, updated = clock_timestamp()
WHERE pipeline = $3 AND worker = $4 AND epoch = $2 AND checkpoint = $5 AND (checkpoint < $1 OR checkpoint = $1 AND written < $2)`
	previous := t.sink.workers.Previous(t.id)
	b := &pgconn.Batch{}
	t.begin(b)
	params := append(textParams(t.id.Checkpoint, t.id.Epoch, t.id.Pipeline, t.id.Worker, previous), note)
	b.ExecParams(query, params, nil, []int16{0, 0, 0, 0, 0, 1}, nil)
	tags, err := t.session.run(ctx, b)
	if code(err) == codeLockTimeout {
		return fmt.Errorf("the witness is locked, by a transaction in doubt or a later epoch: %w: %w", txnsink.ErrBusy, plain(err))
	}
	if err != nil {
		return err
	}
	if tags[len(tags)-1].RowsAffected() == 1 {
		return nil
	}
	return t.misplaced(ctx, previous)
}

// textParams returns values in the text format, whose types the server infers.
func textParams(values ...any) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i] = fmt.Append(nil, v)
	}
	return out
}

// misplaced says why the witness is not where it should be.
func (t *txn) misplaced(ctx context.Context, previous int64) error {
	const query = `SELECT epoch, checkpoint FROM replicator.witness WHERE pipeline = $1 AND worker = $2`
	var epoch, checkpoint int64
	err := t.session.conn.QueryRow(ctx, query, t.id.Pipeline, t.id.Worker).Scan(&epoch, &checkpoint)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return err
	}
	if epoch > t.id.Epoch {
		return fmt.Errorf("%w: epoch %d is at work", txnsink.ErrFenced, epoch)
	}
	return fmt.Errorf("the witness of worker %d is at epoch %d, checkpoint %d; the transaction follows checkpoint %d of its epoch",
		t.id.Worker, epoch, checkpoint, previous)
}

// PreCommit writes the witness and prepares the transaction.
func (t *txn) PreCommit(ctx context.Context) error {
	return t.end(ctx, nil, "PREPARE TRANSACTION "+literal(gid(t.id)), "PREPARE TRANSACTION")
}

// Commit writes the witness and commits the transaction.
func (t *txn) Commit(ctx context.Context, note []byte) error {
	if err := t.end(ctx, note, "COMMIT", "COMMIT"); err != nil {
		return err
	}
	t.sink.workers.Committed(t.id)
	return nil
}

func (t *txn) end(ctx context.Context, note []byte, sql, tag string) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := t.witness(ctx, note); err != nil {
		return t.fail(ctx, err)
	}
	if err := simple(ctx, t.session.conn.PgConn(), sql, tag); err != nil {
		return t.fail(ctx, endError(err))
	}
	t.over = true
	t.sink.release(t)
	return nil
}

// endError says what PREPARE or COMMIT failed for. With an answer of the server, the transaction is rolled back; without
// one, its outcome is not known.
func endError(err error) error {
	var tag *tagError
	if errors.As(err, &tag) {
		return fmt.Errorf("%w: the transaction had failed before, and is rolled back", err)
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return err
	}
	switch {
	case pg.Code == codeNotInState:
		return permanent("%s", disabledTwoPhase)
	case pg.Code == codeOutOfMemory:
		return fmt.Errorf("%s: %w", exhaustedTwoPhaseText, plain(err))
	case pg.Code == codeDuplicateObject:
		return permanent("a prepared transaction of this name exists already: does another database of this server have a pipeline of the same name? (pg_prepared_xacts.database)")
	case pg.Code == codeNotSupported:
		return permanent("%s: a trigger or function of the target does what no prepared transaction may", message(pg))
	case strings.HasPrefix(pg.Code, classConstraint):
		row := rowError(err, schema.Name{Schema: pg.SchemaName, Table: pg.TableName}, sqlgen.Origin{})
		row.Err = fmt.Errorf("%w; the constraint is deferred to the end of the transaction, so which record broke it is not known", row.Err)
		return row
	}
	return err
}

// Abort rolls back what is open. A session that does not say so is closed, and the server rolls back then.
func (t *txn) Abort(ctx context.Context) error {
	if t.over {
		return nil
	}
	t.over = true
	session := t.session
	if session.conn.PgConn().TxStatus() != 'I' && !session.conn.IsClosed() {
		if err := simple(ctx, session.conn.PgConn(), "ROLLBACK", "ROLLBACK"); err != nil {
			closeConn(session.conn)
		}
	}
	t.sink.release(t)
	return nil
}
