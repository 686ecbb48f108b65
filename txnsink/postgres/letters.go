package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"replicator/schema"
	"replicator/txnsink"
)

// LetterTable is the table of the records that were set aside.
func (s *Sink) LetterTable() schema.Name {
	return schema.Name{Schema: "replicator", Table: "dead_letters"}
}

// LetterKeys returns the rows that the pipeline's letters are of, at most limit of them.
func (s *Sink) LetterKeys(ctx context.Context, pipeline string, limit int) ([]txnsink.LetterKey, error) {
	const query = `SELECT DISTINCT topic, row_key FROM replicator.dead_letters WHERE pipeline = $1 LIMIT $2`
	var out []txnsink.LetterKey
	err := s.control(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, query, pipeline, limit)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, pgx.RowToStructByPos[txnsink.LetterKey])
		return err
	})
	return out, letterError(pipeline, err)
}

// SpreadDecisions decides to retry what is not decided of a row of which another letter is, and says whether any is decided.
func (s *Sink) SpreadDecisions(ctx context.Context, pipeline string) (bool, error) {
	const query = `SELECT EXISTS (SELECT FROM replicator.dead_letters WHERE pipeline = $1 AND action IS NOT NULL)`
	var decided bool
	err := s.control(ctx, func(c *pgx.Conn) error {
		if err := c.QueryRow(ctx, query, pipeline).Scan(&decided); err != nil || !decided {
			return err
		}
		_, err := c.Exec(ctx, spreadDecisions, pipeline)
		return err
	})
	return decided, letterError(pipeline, err)
}

// spreadDecisions is run while no letter of the pipeline is in flight: by the pipeline itself between two checkpoints, or under a lock.
const spreadDecisions = `UPDATE replicator.dead_letters SET action = 'retry' WHERE pipeline = $1 AND action IS NULL AND (topic, row_key) IN (
	SELECT topic, row_key FROM replicator.dead_letters WHERE pipeline = $1 AND action IS NOT NULL)`

const letterColumns = `topic, partition, "offset", source, row_key, class, cause, key, value, headers,
	coalesce(record_time, 'epoch'), coalesce(action, ''), created`

// DecidedLetters returns the first limit letters that are decided, by topic, partition and offset.
func (s *Sink) DecidedLetters(ctx context.Context, pipeline string, limit int) ([]txnsink.Letter, error) {
	const query = `SELECT ` + letterColumns + ` FROM replicator.dead_letters WHERE pipeline = $1 AND action IS NOT NULL
ORDER BY topic, partition, "offset" LIMIT $2`
	var out []txnsink.Letter
	err := s.control(ctx, func(c *pgx.Conn) (err error) {
		out, err = collectLetters(ctx, c, query, pipeline, limit)
		return err
	})
	return out, letterError(pipeline, err)
}

// Letters calls do with each of the pipeline's letters, by topic, partition and offset, without their keys, values and headers.
func (s *Sink) Letters(ctx context.Context, pipeline string, do func(*txnsink.Letter) error) error {
	const query = `SELECT topic, partition, "offset", source, row_key, class, cause, NULL::bytea, NULL::bytea, '',
	coalesce(record_time, 'epoch'), coalesce(action, ''), created
FROM replicator.dead_letters WHERE pipeline = $1 ORDER BY topic, partition, "offset"`
	err := s.control(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, query, pipeline)
		if err != nil {
			return err
		}
		var l txnsink.Letter
		_, err = pgx.ForEachRow(rows, letterFields(&l), func() error { return do(&l) })
		return err
	})
	return letterError(pipeline, err)
}

// Letter returns one letter, or nil.
func (s *Sink) Letter(ctx context.Context, pipeline, topic string, partition int32, offset int64) (*txnsink.Letter, error) {
	const query = `SELECT ` + letterColumns + ` FROM replicator.dead_letters WHERE pipeline = $1 AND topic = $2 AND partition = $3 AND "offset" = $4`
	var list []txnsink.Letter
	err := s.control(ctx, func(c *pgx.Conn) (err error) {
		list, err = collectLetters(ctx, c, query, pipeline, topic, partition, offset)
		return err
	})
	if err != nil || len(list) == 0 {
		return nil, letterError(pipeline, err)
	}
	return &list[0], nil
}

// DecideLetters decides the letters of the pipeline that pick names, or all of them if it names none, and returns how many there
// are. It waits for letters that are in flight: what it decides of a row goes for all of the row's.
func (s *Sink) DecideLetters(ctx context.Context, pipeline, action string, pick []txnsink.Letter) (int64, error) {
	const (
		lock = `LOCK TABLE replicator.dead_letters IN SHARE ROW EXCLUSIVE MODE`
		all  = `UPDATE replicator.dead_letters SET action = $2 WHERE pipeline = $1`
		one  = all + ` AND topic = $3 AND partition = $4 AND "offset" = $5`
	)
	var n int64
	err := s.control(ctx, func(c *pgx.Conn) error {
		return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
			if _, err := tx.Exec(ctx, lock); err != nil {
				return err
			}
			if len(pick) == 0 {
				tag, err := tx.Exec(ctx, all, pipeline, action)
				n = tag.RowsAffected()
				return err
			}
			for i := range pick {
				tag, err := tx.Exec(ctx, one, pipeline, action, pick[i].Topic, pick[i].Partition, pick[i].Offset)
				if err != nil {
					return err
				}
				n += tag.RowsAffected()
			}
			_, err := tx.Exec(ctx, spreadDecisions, pipeline)
			return err
		})
	})
	return n, letterError(pipeline, err)
}

func collectLetters(ctx context.Context, c *pgx.Conn, query string, args ...any) ([]txnsink.Letter, error) {
	rows, err := c.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	var out []txnsink.Letter
	var l txnsink.Letter
	_, err = pgx.ForEachRow(rows, letterFields(&l), func() error {
		out = append(out, l)
		l.Key, l.Value = nil, nil
		return nil
	})
	return out, err
}

func letterFields(l *txnsink.Letter) []any {
	return []any{
		&l.Topic, &l.Partition, &l.Offset, &l.Source, &l.RowKey, &l.Class, &l.Cause, &l.Key, &l.Value, &l.Headers, &l.Time, &l.Action, &l.Created,
	}
}

func letterError(pipeline string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("the records of pipeline %s that were set aside (replicator.dead_letters): %w", pipeline, plain(err))
}
