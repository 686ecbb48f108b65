package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// TwoPhase is what a server has for prepared transactions.
type TwoPhase struct {
	Max  int // max_prepared_transactions
	Used int // prepared transactions of all databases of the server
}

// Free is how many more transactions can be prepared.
func (t TwoPhase) Free() int { return max(0, t.Max-t.Used) }

// Enough says whether each of so many workers can have a transaction prepared at the same time, as each checkpoint has them.
// Otherwise nothing is applied for long, and every run would do all of its work before it learned so. Slots that are in use now
// are not counted: they may be this pipeline's own, which recovery gives back.
func (t TwoPhase) Enough(workers int) error {
	if t.Max >= workers {
		return nil
	}
	return permanent("the target lets %d transactions be prepared at a time (max_prepared_transactions), and %d workers need as many: "+adviceTwoPhase+adviceOnePhase, t.Max, workers)
}

// CheckTwoPhase says whether the target can prepare transactions, by preparing an empty one and rolling it back: a
// pooler between here and the server may send the two to different sessions, or refuse them. An error that says what to
// change is one for which txnsink.Permanent is true.
func (s *Sink) CheckTwoPhase(ctx context.Context) (TwoPhase, error) {
	var t TwoPhase
	err := s.control(ctx, func(c *pgx.Conn) error {
		var standby bool
		const query = `SELECT current_setting('max_prepared_transactions')::int, pg_is_in_recovery(),
	(SELECT count(*)::int FROM pg_catalog.pg_prepared_xacts)`
		if err := c.QueryRow(ctx, query).Scan(&t.Max, &standby, &t.Used); err != nil {
			return plain(err)
		}
		switch {
		case standby:
			return permanent("the target is a standby (pg_is_in_recovery): connect to the primary")
		case t.Max == 0:
			return permanent("%s", disabledTwoPhase)
		case t.Free() == 0:
			return fmt.Errorf("%s", exhaustedTwoPhaseText)
		}
		return s.probe(ctx, c)
	})
	if err != nil {
		return t, fmt.Errorf("check two-phase commit: %w", err)
	}
	return t, nil
}

// probe prepares an empty transaction. Its name is no pipeline's (ParseID refuses it), and the server process's number
// makes it one of a kind. A probe whose session was lost half way leaves its transaction behind: a later one removes it.
func (s *Sink) probe(ctx context.Context, c *pgx.Conn) error {
	if err := s.removeOldProbes(ctx, c); err != nil {
		return err
	}
	name := literal(fmt.Sprintf("%sprobe:%s:%d", gidPrefix, s.config.Pipeline, c.PgConn().PID()))
	for _, step := range []struct{ sql, tag string }{
		{"BEGIN", "BEGIN"},
		{"PREPARE TRANSACTION " + name, "PREPARE TRANSACTION"},
		{"ROLLBACK PREPARED " + name, "ROLLBACK PREPARED"},
	} {
		if err := simple(ctx, c.PgConn(), step.sql, step.tag); err != nil {
			if c.PgConn().IsClosed() {
				return err // the server or the network went away, which passes
			}
			if code(err) == codeNotInState {
				return permanent("%s", disabledTwoPhase)
			}
			return permanent("%s does not work on the target: %v: is there a pooler in between? Connect to the server itself, %s", step.tag, plain(err), adviceOnePhase)
		}
	}
	return nil
}

// removeOldProbes rolls back what earlier probes of the pipeline left prepared. A probe that is at work is younger, and the server process
// that its name ends with is there.
func (s *Sink) removeOldProbes(ctx context.Context, c *pgx.Conn) error {
	const query = `SELECT gid FROM pg_prepared_xacts
WHERE database = current_database() AND starts_with(gid, $1) AND (prepared < clock_timestamp() - interval '10 seconds'
	OR split_part(gid, ':', 4) NOT IN (SELECT pid::text FROM pg_stat_activity))`
	rows, err := c.Query(ctx, query, fmt.Sprintf("%sprobe:%s:", gidPrefix, s.config.Pipeline))
	if err != nil {
		return err
	}
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return err
	}
	for _, name := range names {
		err := simple(ctx, c.PgConn(), "ROLLBACK PREPARED "+literal(name), "ROLLBACK PREPARED")
		if err != nil && code(err) != codeUndefinedObject {
			return err
		}
	}
	return nil
}
