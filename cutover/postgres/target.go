// Package postgres changes a target of PostgreSQL for a cutover.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"replicator/schema"
)

const connectTimeout = 10 * time.Second

// lockTimeout bounds how long a statement waits for a lock: whoever waits for a table keeps others waiting behind it.
const lockTimeout = "30s"

// ErrRunning says that another cutover of the same database is at work. Two that make one index would wait for each other.
var ErrRunning = errors.New("another cutover of this database is at work")

// Target is a session on the target. It belongs to one goroutine.
type Target struct{ conn *pgx.Conn }

// Open connects, and fails with [ErrRunning] while another Target of the database is open.
func Open(ctx context.Context, url string) (*Target, error) {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, errors.New("target.url cannot be read") // the parser's error may show the password
	}
	c.ConnectTimeout = connectTimeout
	c.RuntimeParams["application_name"] = "replicator cutover"
	c.RuntimeParams["lock_timeout"] = lockTimeout
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return nil, err
	}
	free := false
	err = conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended('replicator cutover', 0))").Scan(&free)
	if err == nil && !free {
		err = ErrRunning
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close(context.WithoutCancel(ctx)))
	}
	return &Target{conn}, nil
}

// Close ends the session.
func (t *Target) Close(ctx context.Context) error { return t.conn.Close(ctx) }

// Run runs one statement outside of a transaction.
func (t *Target) Run(ctx context.Context, sql string) error {
	if err := t.conn.PgConn().Exec(ctx, sql).Close(); err != nil {
		return fmt.Errorf("run %q: %w", sql, err)
	}
	return nil
}

// Sequence is a sequence that a column takes its values from, and the value that comes next.
type Sequence struct {
	Column string `json:"column"`
	Next   int64  `json:"next"`
}

// Advance sets the sequences of a table's columns so that their next values are past the highest one stored, and at least least. A
// sequence never goes back: the application may have taken values already.
func (t *Target) Advance(ctx context.Context, name schema.Name, least int64) ([]Sequence, error) {
	const columns = `SELECT DISTINCT a.attname, s.oid::regclass::text
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_attrdef f ON f.adrelid = a.attrelid AND f.adnum = a.attnum
JOIN pg_catalog.pg_depend d ON (d.refclassid = 'pg_class'::regclass AND d.refobjid = a.attrelid AND d.refobjsubid = a.attnum AND d.classid = 'pg_class'::regclass AND d.deptype IN ('a', 'i'))
	OR (d.classid = 'pg_attrdef'::regclass AND d.objid = f.oid AND d.refclassid = 'pg_class'::regclass)
JOIN pg_catalog.pg_class s ON s.relkind = 'S' AND s.oid = CASE WHEN d.classid = 'pg_class'::regclass THEN d.objid ELSE d.refobjid END
WHERE n.nspname = coalesce(nullif($1, ''), current_schema()) AND c.relname = $2 AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY 1`
	rows, err := t.conn.Query(ctx, columns, name.Schema, name.Table)
	if err != nil {
		return nil, err
	}
	type found struct{ Column, Sequence string }
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[found])
	if err != nil {
		return nil, fmt.Errorf("find the sequences of %s: %w", name, err)
	}
	table := pgx.Identifier{name.Schema, name.Table}
	if name.Schema == "" {
		table = table[1:]
	}
	var out []Sequence
	for _, f := range list {
		s := Sequence{Column: f.Column}
		sql := fmt.Sprintf(`SELECT setval($1::text::regclass, greatest((SELECT coalesce(max(%s), 0)::bigint + 1 FROM %s), $2, (SELECT last_value + is_called::int FROM %s)), false)`,
			pgx.Identifier{f.Column}.Sanitize(), table.Sanitize(), f.Sequence)
		if err := t.conn.QueryRow(ctx, sql, f.Sequence, max(least, 1)).Scan(&s.Next); err != nil {
			return nil, fmt.Errorf("advance the sequence %s of %s.%s: %w", f.Sequence, name, f.Column, err)
		}
		out = append(out, s)
	}
	return out, nil
}
