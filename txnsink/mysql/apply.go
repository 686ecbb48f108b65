package mysql

import (
	"context"
	"errors"
	"fmt"

	"replicator/sqlgen"
	"replicator/txnsink"
)

// Apply runs statements one by one. A statement that is refused leaves no row behind (InnoDB undoes it), and is tried
// on ever fewer rows until one is left.
func (t *txn) Apply(ctx context.Context, batch []sqlgen.Statement) error {
	if err := t.usable(); err != nil {
		return err
	}
	batch = t.session.cautions.Choose(batch)
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
	if s.Data != nil {
		return t.load(ctx, s)
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
	var count *txnsink.CountError
	if errors.As(err, &count) && s.Slice != nil {
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
		err = &txnsink.CountError{Got: n, Want: s.Want}
	}
	return err
}

// packetError is a statement that the server would not read.
type packetError struct{ size, limit int }

func (e *packetError) Error() string {
	return fmt.Sprintf("the row's statement has %d bytes and max_allowed_packet of the target is %d: raise it, and start again", e.size, e.limit)
}

// refused says whether a statement failed for one of its rows.
func refused(err error) bool {
	var count *txnsink.CountError
	var packet *packetError
	return errors.As(err, &count) || errors.As(err, &packet) || dataError(err)
}

// locate finds the row for which the server refused s.
func (t *txn) locate(ctx context.Context, s *sqlgen.Statement, err error) error {
	return txnsink.Refusal{
		Try: func(part *sqlgen.Statement) error { return t.attempt(ctx, part) },
		Of:  refused,
		Row: func(i int, err error) *sqlgen.RowError { return refusal(s, i, err) },
	}.Locate(s, err)
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
	out := rowError(err, s.Table, txnsink.OriginOf(s, i))
	var count *txnsink.CountError
	var packet *packetError
	switch {
	case errors.As(err, &packet):
		out.Class = sqlgen.TooLarge
	case errors.As(err, &count):
		txnsink.Missing(out)
	}
	return out
}
