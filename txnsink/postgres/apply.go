package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"

	"replicator/sqlgen"
)

// maxSend bounds the bytes of arguments that one round trip carries: they are copied into a buffer of their own.
const maxSend = 16 << 20

// Apply runs statements, in one round trip for every maxSend bytes. Each round trip has a savepoint: when a row is refused,
// everything before the round trip stands, and the statement is tried on ever fewer rows until one is left.
func (t *txn) Apply(ctx context.Context, batch []sqlgen.Statement) error {
	if err := t.usable(); err != nil {
		return err
	}
	if err := t.session.trim(ctx); err != nil {
		return t.fail(ctx, err)
	}
	for len(batch) > 0 {
		n := sendable(batch)
		if err := t.send(ctx, batch[:n]); err != nil {
			return t.fail(ctx, err)
		}
		batch = batch[n:]
	}
	return nil
}

// sendable returns how many of the first statements fit into a round trip: at least one.
func sendable(batch []sqlgen.Statement) int {
	size := 0
	for i := range batch {
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
	before := t.begin(b)
	if t.saved {
		b.ExecParams("RELEASE SAVEPOINT batch", nil, nil, nil, nil)
		before++
	}
	b.ExecParams("SAVEPOINT batch", nil, nil, nil, nil)
	before++
	for i := range batch {
		if err := t.session.add(ctx, b, &batch[i]); err != nil {
			return err
		}
	}
	tags, err := t.session.run(ctx, b)
	t.saved = true
	done := len(tags) - before
	if err == nil {
		done, err = shortfall(batch, tags[before:])
	}
	if err == nil {
		return nil
	}
	if done < 0 || !refused(err) {
		return err
	}
	return t.locate(ctx, batch[:done], &batch[done], err)
}

// wantError is a statement that succeeded on another number of rows than the source's events call for.
type wantError struct{ got, want int64 }

func (e *wantError) Error() string {
	return fmt.Sprintf("the target has %d of the %d rows that the source changed", e.got, e.want)
}

// shortfall returns the first statement that did not affect the rows that it must.
func shortfall(batch []sqlgen.Statement, tags []pgconn.CommandTag) (int, error) {
	for i, tag := range tags {
		if want := batch[i].Want; want >= 0 && tag.RowsAffected() != want {
			return i, &wantError{tag.RowsAffected(), want}
		}
	}
	return 0, nil
}

// refused says whether a statement failed for one of its rows.
func refused(err error) bool {
	var want *wantError
	return errors.As(err, &want) || dataError(err)
}

// locate finds the row for which the server refused s, after done succeeded. Rows before it stay applied while the
// rest is halved, so that a row is refused as it was the first time. The transaction is good for nothing afterwards.
func (t *txn) locate(ctx context.Context, done []sqlgen.Statement, s *sqlgen.Statement, err error) error {
	if err := t.session.simple(ctx, "ROLLBACK TO SAVEPOINT batch"); err != nil {
		return err
	}
	for i := range done {
		if err := t.attempt(ctx, &done[i]); err != nil {
			return err
		}
	}
	first, end := 0, max(s.Rows, 1)
	for s.Slice != nil && end-first > 1 {
		middle := first + (end-first)/2
		half := s.Slice(first, middle)
		switch tryErr := t.attempt(ctx, &half); {
		case tryErr == nil:
			first = middle
		case refused(tryErr):
			err, end = tryErr, middle
		default:
			return tryErr
		}
	}
	if s.Slice != nil && s.Rows > 1 {
		one := s.Slice(first, first+1)
		switch tryErr := t.attempt(ctx, &one); {
		case tryErr == nil:
			row := refusal(s, 0, err)
			row.Err = fmt.Errorf("%w; none of the statement's %d rows is refused alone, so the first is named", row.Err, s.Rows)
			return row
		case refused(tryErr):
			err = tryErr
		default:
			return tryErr
		}
	}
	return refusal(s, first, err)
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
	if err == nil || !refused(err) {
		return err
	}
	return errors.Join(err, t.session.simple(ctx, "ROLLBACK TO SAVEPOINT attempt"))
}

var errCollision = errors.New("the target has another row whose key its collation or type takes for the same, as in Ada and ADA; " +
	"give the key's columns a deterministic collation and a type such as text")

// refusal is err as one about row i of s.
func refusal(s *sqlgen.Statement, i int, err error) *sqlgen.RowError {
	var origin sqlgen.Origin
	if s.Origin != nil && i < s.Rows {
		origin = s.Origin(i)
	}
	out := rowError(err, s.Table, origin)
	var want *wantError
	switch missing := errors.As(err, &want); {
	case missing && s.Kind == sqlgen.UpsertRows:
		out.Class, out.Err = sqlgen.KeyCollision, errCollision
	case missing:
		out.Class = sqlgen.UnavailableValue
		if origin.Key == "" { // a table without a key
			out.Class = sqlgen.MissingRow
		}
		out.Err = errors.New("the target has no such row as the source changed")
	}
	return out
}
