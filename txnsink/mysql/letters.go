package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"replicator/schema"
	"replicator/txnsink"
)

// LetterTable is the table of the records that were set aside.
func (s *Sink) LetterTable() schema.Name {
	return schema.Name{Schema: s.facts.database, Table: "replicator_dead_letters"}
}

// LetterKeys returns the rows that the pipeline's letters are of, at most limit of them.
func (s *Sink) LetterKeys(ctx context.Context, pipeline string, limit int) (out []txnsink.LetterKey, err error) {
	const query = "SELECT DISTINCT topic, row_key FROM replicator_dead_letters WHERE pipeline = ? LIMIT ?"
	rows, err := s.control.QueryContext(ctx, query, pipeline, limit)
	if err != nil {
		return nil, letterError(pipeline, err)
	}
	defer func() { err = letterError(pipeline, errors.Join(err, rows.Close())) }()
	for rows.Next() {
		var k txnsink.LetterKey
		if err := rows.Scan(&k.Topic, &k.RowKey); err != nil {
			return nil, err
		}
		out = append(out, k)
	}
	return out, rows.Err()
}

// spreadDecisions names the table within another, because a statement may not read the one that it changes.
const spreadDecisions = `UPDATE replicator_dead_letters SET action = 'retry' WHERE pipeline = ? AND action IS NULL AND (topic, row_key) IN (
	SELECT topic, row_key FROM (SELECT DISTINCT topic, row_key FROM replicator_dead_letters WHERE pipeline = ? AND action IS NOT NULL) AS decided)`

// SpreadDecisions decides to retry what is not decided of a row of which another letter is, and says whether any is decided.
func (s *Sink) SpreadDecisions(ctx context.Context, pipeline string) (bool, error) {
	const query = "SELECT EXISTS (SELECT 1 FROM replicator_dead_letters WHERE pipeline = ? AND action IS NOT NULL)"
	var decided bool
	err := s.control.QueryRowContext(ctx, query, pipeline).Scan(&decided)
	if err == nil && decided {
		_, err = s.control.ExecContext(ctx, spreadDecisions, pipeline, pipeline)
	}
	return decided, letterError(pipeline, err)
}

// The columns of a letter; times are microseconds since 1970, because a session is in UTC.
const (
	letterHead  = "topic, `partition`, `offset`, source, row_key, class, cause, "
	letterTail  = ", COALESCE(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', record_time), 0), COALESCE(action, ''), TIMESTAMPDIFF(MICROSECOND, '1970-01-01', created)"
	letterWhole = letterHead + "`key`, value, headers" + letterTail
	letterBrief = letterHead + "NULL, NULL, ''" + letterTail
	letterOrder = " ORDER BY topic, `partition`, `offset`"
)

// DecidedLetters returns the first limit letters that are decided, by topic, partition and offset.
func (s *Sink) DecidedLetters(ctx context.Context, pipeline string, limit int) ([]txnsink.Letter, error) {
	const query = "SELECT " + letterWhole + " FROM replicator_dead_letters WHERE pipeline = ? AND action IS NOT NULL" + letterOrder + " LIMIT ?"
	var out []txnsink.Letter
	err := s.eachLetter(ctx, query, func(l *txnsink.Letter) error { out = append(out, *l); return nil }, pipeline, limit)
	return out, letterError(pipeline, err)
}

// Letters calls do with each of the pipeline's letters, by topic, partition and offset, without their keys, values and headers.
func (s *Sink) Letters(ctx context.Context, pipeline string, do func(*txnsink.Letter) error) error {
	const query = "SELECT " + letterBrief + " FROM replicator_dead_letters WHERE pipeline = ?" + letterOrder
	return letterError(pipeline, s.eachLetter(ctx, query, do, pipeline))
}

// Letter returns one letter, or nil.
func (s *Sink) Letter(ctx context.Context, pipeline, topic string, partition int32, offset int64) (*txnsink.Letter, error) {
	const query = "SELECT " + letterWhole + " FROM replicator_dead_letters WHERE pipeline = ? AND topic = ? AND `partition` = ? AND `offset` = ?"
	var out *txnsink.Letter
	err := s.eachLetter(ctx, query, func(l *txnsink.Letter) error { out = l; return nil }, pipeline, topic, partition, offset)
	return out, letterError(pipeline, err)
}

// DecideLetters decides the letters of the pipeline that pick names, or all of them if it names none, and returns how many there
// are. What it decides of a row goes for all of the row's, those in flight too: the pipeline sees to these when it carries it out.
func (s *Sink) DecideLetters(ctx context.Context, pipeline, action string, pick []txnsink.Letter) (n int64, err error) {
	tx, err := s.control.BeginTx(ctx, nil)
	if err != nil {
		return 0, letterError(pipeline, err)
	}
	if n, err = decideLetters(ctx, tx, pipeline, action, pick); err != nil {
		return 0, letterError(pipeline, errors.Join(err, tx.Rollback()))
	}
	return n, letterError(pipeline, tx.Commit())
}

// decideLetters counts the letters that it finds, and not those that it changes: one may be decided that way already.
func decideLetters(ctx context.Context, tx *sql.Tx, pipeline, action string, pick []txnsink.Letter) (n int64, err error) {
	const (
		where = " WHERE pipeline = ?"
		one   = where + " AND topic = ? AND `partition` = ? AND `offset` = ?"
	)
	decide := func(where string, args ...any) error {
		var found int64
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM replicator_dead_letters"+where, args...).Scan(&found); err != nil {
			return err
		}
		n += found
		_, err := tx.ExecContext(ctx, "UPDATE replicator_dead_letters SET action = ?"+where, append([]any{action}, args...)...)
		return err
	}
	if len(pick) == 0 {
		return n, decide(where, pipeline)
	}
	for i := range pick {
		if err := decide(one, pipeline, pick[i].Topic, pick[i].Partition, pick[i].Offset); err != nil {
			return n, err
		}
	}
	_, err = tx.ExecContext(ctx, spreadDecisions, pipeline, pipeline)
	return n, err
}

func (s *Sink) eachLetter(ctx context.Context, query string, do func(*txnsink.Letter) error, args ...any) (err error) {
	rows, err := s.control.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var l txnsink.Letter
		var at, created int64
		if err := rows.Scan(&l.Topic, &l.Partition, &l.Offset, &l.Source, &l.RowKey, &l.Class, &l.Cause, &l.Key, &l.Value, &l.Headers, &at, &l.Action, &created); err != nil {
			return err
		}
		l.Time, l.Created = time.UnixMicro(at), time.UnixMicro(created)
		if err := do(&l); err != nil {
			return err
		}
	}
	return rows.Err()
}

func letterError(pipeline string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the records of pipeline %s that were set aside (replicator_dead_letters): %w", pipeline, plain(err))
}
