package mysql

import (
	"context"
	"errors"
	"fmt"

	"replicator/sqlgen"
)

// Apply runs statements one by one. A statement that is refused leaves no row behind (InnoDB undoes it), and is tried
// on ever fewer rows until one is left.
func (t *txn) Apply(ctx context.Context, batch []sqlgen.Statement) error {
	if err := t.usable(); err != nil {
		return err
	}
	for i := range batch {
		if err := t.apply(ctx, &batch[i]); err != nil {
			return t.fail(ctx, err)
		}
	}
	return nil
}

func (t *txn) apply(ctx context.Context, s *sqlgen.Statement) error {
	if err := t.begin(ctx); err != nil {
		return err
	}
	// One that succeeds on too few rows has changed the others.
	if s.Want >= 0 && s.Slice != nil {
		if err := t.session.exec(ctx, "SAVEPOINT apply"); err != nil {
			return err
		}
	}
	err := t.run(ctx, s)
	if err == nil || !refused(err) {
		return err
	}
	var want *wantError
	if errors.As(err, &want) && s.Slice != nil {
		if err := t.session.exec(ctx, "ROLLBACK TO SAVEPOINT apply"); err != nil {
			return err
		}
	}
	return t.locate(ctx, s, err)
}

// run runs one statement and compares how many rows it found.
func (t *txn) run(ctx context.Context, s *sqlgen.Statement) error {
	if len(s.Args) > 0 {
		return fmt.Errorf("a statement on table %s has arguments; this sink takes SQL text alone", s.Table)
	}
	if len(s.SQL) >= t.sink.facts.maxPacket { // and one byte for the command
		return &packetError{len(s.SQL), t.sink.facts.maxPacket}
	}
	result, err := t.session.conn.ExecContext(ctx, s.SQL)
	if err != nil || s.Want < 0 {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n != s.Want {
		err = &wantError{n, s.Want}
	}
	return err
}

// wantError is a statement that succeeded on another number of rows than the source's events call for.
type wantError struct{ got, want int64 }

func (e *wantError) Error() string {
	return fmt.Sprintf("the target has %d of the %d rows that the source changed", e.got, e.want)
}

// packetError is a statement that the server would not read.
type packetError struct{ size, limit int }

func (e *packetError) Error() string {
	return fmt.Sprintf("the row's statement has %d bytes and max_allowed_packet of the target is %d: raise it, and start again", e.size, e.limit)
}

// refused says whether a statement failed for one of its rows.
func refused(err error) bool {
	var want *wantError
	var packet *packetError
	return errors.As(err, &want) || errors.As(err, &packet) || dataError(err)
}

// locate finds the row for which the server refused s. Rows before it stay applied while the rest is halved, so that a row
// is refused as it was the first time. The transaction is good for nothing afterwards.
func (t *txn) locate(ctx context.Context, s *sqlgen.Statement, err error) error {
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

// attempt runs one statement so that its failure leaves the transaction as it was.
func (t *txn) attempt(ctx context.Context, s *sqlgen.Statement) error {
	if err := t.session.exec(ctx, "SAVEPOINT attempt"); err != nil {
		return err
	}
	err := t.run(ctx, s)
	if err == nil || !refused(err) {
		return err
	}
	return errors.Join(err, t.session.exec(ctx, "ROLLBACK TO SAVEPOINT attempt"))
}

// refusal is err as one about row i of s.
func refusal(s *sqlgen.Statement, i int, err error) *sqlgen.RowError {
	var origin sqlgen.Origin
	if s.Origin != nil && i < s.Rows {
		origin = s.Origin(i)
	}
	out := rowError(err, s.Table, origin)
	var want *wantError
	var packet *packetError
	switch {
	case errors.As(err, &packet):
		out.Class = sqlgen.TooLarge
	case errors.As(err, &want):
		out.Class = sqlgen.UnavailableValue
		if origin.Key == "" { // a table without a key
			out.Class = sqlgen.MissingRow
		}
		out.Err = errors.New("the target has no such row as the source changed")
	}
	return out
}
