package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"replicator/sqlgen"
	"replicator/txnsink"
)

// maxSend bounds the bytes of arguments that one round trip carries: they are copied into a buffer of their own.
const maxSend = 16 << 20

// Apply runs statements, in one round trip for every maxSend bytes. Each round trip has a savepoint: when a row is refused,
// everything before the round trip stands, and the statement is tried on ever fewer rows until one is left. Apply itself
// has another, to begin again when rows trade values of a unique index.
func (t *txn) Apply(ctx context.Context, batch []sqlgen.Statement) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := t.session.trim(ctx); err != nil {
		return t.fail(ctx, err)
	}
	if err := t.applyAll(ctx, t.session.cautions.Choose(batch)); err != nil {
		return t.fail(ctx, err)
	}
	return nil
}

// applyAll runs batch, and once more for each table whose rows trade values of a unique index.
func (t *txn) applyAll(ctx context.Context, batch []sqlgen.Statement) error {
	t.fresh = true
	for {
		err := t.sendAll(ctx, batch)
		var trade *tradeError
		if !errors.As(err, &trade) {
			return err
		}
		if err := t.session.simple(ctx, "ROLLBACK TO SAVEPOINT apply"); err != nil {
			return err
		}
		t.saved, t.scans = false, t.scanned
		var found bool
		if batch, found = exchanged(batch, trade.exchange); !found {
			return trade.error
		}
	}
}

// tradeError is a value that a unique index refuses, of a table that can be written so that rows may trade values.
type tradeError struct {
	exchange *sqlgen.Exchange
	error
}

func (e *tradeError) Unwrap() error { return e.error }

// trades says whether err is worth an exchange. One removes rows and inserts them again, which must not set off what
// the target's foreign keys do when a row is removed.
func (t *txn) trades(s *sqlgen.Statement, err error) bool {
	return s.Exchange != nil && code(err) == codeUniqueViolation && !t.sink.FiresTriggers()
}

// exchanged puts the exchange's statements in place of the first statement that has it, and leaves out the others. It says whether there
// was one: else the batch would fail again, for ever.
func exchanged(batch []sqlgen.Statement, e *sqlgen.Exchange) (out []sqlgen.Statement, found bool) {
	for _, s := range batch {
		switch {
		case s.Exchange != e:
			out = append(out, s)
		case !found:
			found = true
			out = append(out, e.Statements()...)
		}
	}
	return out, found
}

func (t *txn) sendAll(ctx context.Context, batch []sqlgen.Statement) error {
	for len(batch) > 0 {
		if err := t.plan(ctx, batch[0].Scans); err != nil {
			return err
		}
		n := sendable(batch)
		send := t.send
		if batch[0].Data != nil {
			send = t.copy
		}
		err := send(ctx, batch[:n])
		if stale(err) {
			if err = t.forget(ctx); err == nil {
				err = send(ctx, batch[:n])
			}
		}
		if err != nil {
			return err
		}
		batch = batch[n:]
	}
	return nil
}

// stale says whether a statement failed for how it was prepared: somebody has changed its table since, or has deallocated what
// this session had prepared.
func stale(err error) bool {
	switch code(err) {
	case codeNotSupported, codeUndefinedStatement:
		return true
	}
	return false
}

// forget undoes the round trip that failed and everything that was prepared, so that it is prepared anew.
func (t *txn) forget(ctx context.Context) error {
	if err := t.session.simple(ctx, "ROLLBACK TO SAVEPOINT batch"); err != nil {
		return err
	}
	clear(t.session.statements)
	return t.session.conn.PgConn().Exec(ctx, "DEALLOCATE ALL").Close()
}

// plan lets the server's planner choose freely for statements that no index serves. For all others it is held to the index
// (see planner): it takes an array of thousands of keys, on a table that it last looked at when it was small, for a reason to
// read all of the table. The setting is the transaction's, and stands before the savepoint of the next round trip.
func (t *txn) plan(ctx context.Context, scans bool) error {
	if scans == t.scans {
		return nil
	}
	to := "off"
	if scans {
		to = "on"
	}
	b := &pgconn.Batch{}
	t.begin(b)
	for _, name := range []string{"enable_hashjoin", "enable_mergejoin", "enable_seqscan"} {
		b.ExecParams("SET LOCAL "+name+" = "+to, nil, nil, nil, nil)
	}
	if _, err := t.session.run(ctx, b); err != nil {
		return err
	}
	t.scans = scans
	return nil
}

// sendable returns how many of the first statements fit into a round trip: at least one, just one that reads data, and
// none that are planned otherwise.
func sendable(batch []sqlgen.Statement) int {
	size := 0
	for i := range batch {
		switch {
		case batch[i].Data != nil:
			return max(i, 1)
		case batch[i].Scans != batch[0].Scans:
			return i
		}
		for _, a := range batch[i].Args {
			if array, ok := a.(sqlgen.Array); ok {
				size += len(array.Data)
			}
		}
		if size > maxSend && i > 0 {
			return i
		}
	}
	return len(batch)
}

// send runs statements under a fresh savepoint.
func (t *txn) send(ctx context.Context, batch []sqlgen.Statement) error {
	b := &pgconn.Batch{}
	before := t.save(b)
	for i := range batch {
		if err := t.session.add(ctx, b, &batch[i]); err != nil {
			return err
		}
	}
	tags, err := t.session.run(ctx, b)
	done := len(tags) - before
	if err == nil {
		done, err = shortfall(batch, tags[before:])
	}
	if err == nil {
		return t.complete(ctx, batch, tags[before:])
	}
	if done < 0 || !refused(err) {
		return err
	}
	if t.trades(&batch[done], err) {
		return &tradeError{batch[done].Exchange, err}
	}
	return t.locate(ctx, batch[:done], &batch[done], err)
}

// complete runs what stands instead of statements that found fewer rows than they are for.
func (t *txn) complete(ctx context.Context, batch []sqlgen.Statement, tags []pgconn.CommandTag) error {
	for i := range batch {
		s := &batch[i]
		if s.Instead == nil {
			continue
		}
		short := tags[i].RowsAffected() != s.Want
		t.session.cautions.Tried(s.SQL, !short)
		if short {
			if err := t.sendAll(ctx, s.Instead()); err != nil {
				return err
			}
		}
	}
	return nil
}

// save appends fresh savepoints to a round trip, and returns how many statements that took.
func (t *txn) save(b *pgconn.Batch) int {
	n := t.begin(b)
	add := func(sql string) {
		b.ExecParams(sql, nil, nil, nil, nil)
		n++
	}
	switch {
	case t.fresh && t.applied:
		add("RELEASE SAVEPOINT apply")
	case !t.fresh && t.saved:
		add("RELEASE SAVEPOINT batch")
	}
	if t.fresh {
		add("SAVEPOINT apply")
		t.fresh, t.applied, t.scanned = false, true, t.scans
	}
	add("SAVEPOINT batch")
	t.saved = true
	return n
}

// copy runs the one statement of batch, a COPY, under a fresh savepoint. When the server refuses it, as it does for a
// single row that is there, what stands instead of it is run, and tells the row that is to blame if there is one.
func (t *txn) copy(ctx context.Context, batch []sqlgen.Statement) error {
	s := &batch[0]
	b := &pgconn.Batch{}
	t.save(b)
	if _, err := t.session.run(ctx, b); err != nil {
		return err
	}
	tag, err := t.session.conn.PgConn().CopyFrom(ctx, s.Data(), s.SQL)
	if err == nil && tag.RowsAffected() != int64(s.Rows) {
		return fmt.Errorf("%q took %d of %d rows", s.SQL, tag.RowsAffected(), s.Rows)
	}
	t.session.cautions.Tried(s.SQL, err == nil)
	if err == nil || code(err) == "" {
		return err
	}
	if err := t.session.simple(ctx, "ROLLBACK TO SAVEPOINT batch"); err != nil {
		return err
	}
	return t.sendAll(ctx, s.Instead())
}

// shortfall returns the first statement that did not affect the rows that it must, and has none instead.
func shortfall(batch []sqlgen.Statement, tags []pgconn.CommandTag) (int, error) {
	for i, tag := range tags {
		if want := batch[i].Want; want >= 0 && batch[i].Instead == nil && tag.RowsAffected() != want {
			return i, &txnsink.CountError{Got: tag.RowsAffected(), Want: want}
		}
	}
	return 0, nil
}

// refused says whether a statement failed for one of its rows.
func refused(err error) bool {
	var count *txnsink.CountError
	return errors.As(err, &count) || dataError(err)
}

// locate finds the row for which the server refused s, after done succeeded.
func (t *txn) locate(ctx context.Context, done []sqlgen.Statement, s *sqlgen.Statement, err error) error {
	if err := t.session.simple(ctx, "ROLLBACK TO SAVEPOINT batch"); err != nil {
		return err
	}
	for i := range done {
		if err := t.attempt(ctx, &done[i]); err != nil {
			return err
		}
	}
	return txnsink.Refusal{
		Try: func(part *sqlgen.Statement) error { return t.attempt(ctx, part) },
		Of:  refused,
		Row: func(i int, err error) *sqlgen.RowError { return refusal(s, i, err) },
	}.Locate(s, err)
}

// attempt runs one statement so that its failure leaves the transaction usable.
func (t *txn) attempt(ctx context.Context, s *sqlgen.Statement) error {
	b := &pgconn.Batch{}
	b.ExecParams("SAVEPOINT attempt", nil, nil, nil, nil)
	if err := t.session.add(ctx, b, s); err != nil {
		return err
	}
	tags, err := t.session.run(ctx, b)
	if err == nil {
		_, err = shortfall([]sqlgen.Statement{*s}, tags[1:])
	}
	if err == nil && s.Instead != nil && tags[1].RowsAffected() != s.Want {
		for _, other := range s.Instead() {
			if err := t.attempt(ctx, &other); err != nil {
				return err
			}
		}
	}
	if err == nil || !refused(err) {
		return err
	}
	return errors.Join(err, t.session.simple(ctx, "ROLLBACK TO SAVEPOINT attempt"))
}

var errCollision = errors.New("the target has another row whose key its collation or type takes for the same, as in Ada and ADA; " +
	"give the key's columns a deterministic collation and a type such as text")

// refusal is err as one about row i of s.
func refusal(s *sqlgen.Statement, i int, err error) *sqlgen.RowError {
	out := rowError(err, s.Table, txnsink.OriginOf(s, i))
	var count *txnsink.CountError
	switch missing := errors.As(err, &count); {
	case missing && s.Kind == sqlgen.UpsertRows:
		out.Class, out.Err = sqlgen.KeyCollision, errCollision
	case missing:
		txnsink.Missing(out)
	}
	return out
}
