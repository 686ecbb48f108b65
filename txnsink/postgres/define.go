package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"replicator/txnsink"
)

// defineTries bounds how often a definition is tried that another process's has got in the way of.
const defineTries = 3

// Define runs DDL in one transaction, with the note of it and the fence. CREATE ... IF NOT EXISTS fails when another
// process creates the same at once, on whichever half-made catalog entry it meets. It is tried again then, and finds what
// the other has created; a name that something else has fails again.
func (s *Sink) Define(ctx context.Context, d txnsink.Definition) error {
	err := s.control(ctx, func(c *pgx.Conn) error { return notOwn(ctx, c, d.Defined) })
	if err != nil {
		return err
	}
	for range defineTries {
		var at string // the statement that failed
		err = s.control(ctx, func(c *pgx.Conn) error {
			return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) (err error) {
				at, err = s.define(ctx, tx, d)
				return err
			})
		})
		if errors.Is(err, txnsink.ErrFenced) || errors.Is(err, txnsink.ErrOvertaken) {
			return err
		}
		if !createdAtOnce(at, err) {
			if err != nil {
				return defineError(at, err)
			}
			return nil
		}
	}
	return fmt.Errorf("change the schema of the target: %w", plain(err))
}

// notOwn refuses targets that are the replicator's own tables: whoever names the source's tables would write checkpoints. A role that
// is called replicator has their schema as its default, with other tables in it.
func notOwn(ctx context.Context, c *pgx.Conn, list []txnsink.Defined) error {
	const query = `SELECT current_schema() = 'replicator' AND $1 IN ('pipelines', 'checkpoints', 'witness', 'log', 'schema_version', 'dead_letters', 'schema_migrations')`
	for _, d := range list {
		own := d.Target.Schema == "replicator"
		if d.Target.Schema == "" {
			if err := c.QueryRow(ctx, query, d.Target.Table).Scan(&own); err != nil {
				return fmt.Errorf("change the schema of the target: %w", plain(err))
			}
		}
		if own {
			return permanent("%s cannot be the target of %s: the replicator's own tables are there; give it another place by target.table, or by a rule's target", d.Target, d.Source)
		}
	}
	return nil
}

// define does all of d. It returns the statement of it that failed; empty: none did.
func (s *Sink) define(ctx context.Context, tx pgx.Tx, d txnsink.Definition) (string, error) {
	if d.Epoch != 0 {
		if err := keepOut(ctx, tx, d); err != nil {
			return "", err
		}
	}
	if d.Of != nil {
		if err := s.still(ctx, tx, d.Of); err != nil {
			return "", err
		}
	}
	if at, err := runAll(ctx, tx.Conn().PgConn(), d.DDL); err != nil {
		return at, err
	}
	const note = `INSERT INTO replicator.schema_version (pipeline, source, target_schema, target_table, state)
SELECT $1, * FROM unnest($2::text[], $3::text[], $4::text[], $5::json[])
ON CONFLICT (pipeline, source) DO UPDATE
SET target_schema = excluded.target_schema, target_table = excluded.target_table, state = excluded.state, updated = now()`
	var sources, schemas, names, states []string
	for _, v := range d.Defined {
		sources, schemas, names, states = append(sources, v.Source), append(schemas, v.Target.Schema), append(names, v.Target.Table), append(states, v.State)
	}
	if len(sources) == 0 {
		return "", nil
	}
	_, err := tx.Exec(ctx, note, d.Pipeline, sources, schemas, names, states)
	return "", err
}

// runAll runs statements in one turn. It returns the one that failed.
func runAll(ctx context.Context, c *pgconn.PgConn, statements []string) (string, error) {
	if len(statements) == 0 {
		return "", nil
	}
	done := 0
	results := c.Exec(ctx, strings.Join(statements, ";\n"))
	for results.NextResult() {
		if _, err := results.ResultReader().Close(); err == nil {
			done++
		}
	}
	return statements[min(done, len(statements)-1)], results.Close()
}

// keepOut returns ErrFenced if a later epoch is at work, and otherwise keeps it out until the transaction ends: Fence locks
// the row FOR UPDATE. A worker's transaction, which may be in doubt, only updates it and is not waited for.
func keepOut(ctx context.Context, tx pgx.Tx, d txnsink.Definition) error {
	const query = `SELECT epoch FROM replicator.witness WHERE pipeline = $1 AND worker = 0 FOR KEY SHARE`
	var epoch int64
	err := tx.QueryRow(ctx, query, d.Pipeline).Scan(&epoch)
	switch {
	case errors.Is(err, pgx.ErrNoRows) || err == nil && epoch < d.Epoch:
		return fmt.Errorf("the witness of worker 0 is not at epoch %d: somebody has changed replicator.witness", d.Epoch)
	case err != nil:
		return err
	case epoch > d.Epoch:
		return fmt.Errorf("%w: epoch %d is at work", txnsink.ErrFenced, epoch)
	}
	return nil
}

// still returns ErrOvertaken unless the table is what it was, and keeps it so until the transaction ends. One that was not there is made by
// a statement that fails if another has made it meanwhile.
func (s *Sink) still(ctx context.Context, tx pgx.Tx, p *txnsink.Planned) error {
	name := s.inSchema(p.Name)
	if p.Table != nil {
		id := pgx.Identifier{name.Schema, name.Table}
		if name.Schema == "" {
			id = id[1:]
		}
		// As strong as what most changes take: two processes that held less would both wait for more.
		if _, err := tx.Exec(ctx, "LOCK TABLE "+id.Sanitize()+" IN ACCESS EXCLUSIVE MODE"); code(err) == codeUndefinedTable {
			return p.Still(nil)
		} else if err != nil {
			return err
		}
	}
	now, err := s.readTable(ctx, tx.Conn(), name)
	if err != nil {
		return err
	}
	return p.Still(now)
}

// defineError says which statement failed. What is wrong with a statement, or with the rows that it would convert, is wrong
// the next time too.
func defineError(sql string, err error) error {
	c := code(err)
	switch {
	case sql == "":
		return fmt.Errorf("change the schema of the target: %w", plain(err))
	case dataError(err) || strings.HasPrefix(c, "42") && c != codePrivilege || c == codeNotSupported || c == codeDependent:
		return permanent("change the schema of the target by %q: %v; change the target by hand, or set schema.evolve for this table", sql, plain(err))
	}
	return fmt.Errorf("change the schema of the target by %q: %w", sql, plain(err))
}

// createdAtOnce says whether err may be that of two processes which create the same.
func createdAtOnce(sql string, err error) bool {
	words := strings.Fields(strings.ToUpper(sql))
	if len(words) < 5 || words[0] != "CREATE" || words[2] != "IF" {
		return false
	}
	switch code(err) {
	case codeDuplicateTable, codeDuplicateObject, codeUniqueViolation:
		return true
	}
	return false
}

// Defined reads what Define had noted.
func (s *Sink) Defined(ctx context.Context, pipeline string) ([]txnsink.Defined, error) {
	const query = `SELECT source, target_schema, target_table, state::text FROM replicator.schema_version WHERE pipeline = $1 ORDER BY source`
	var out []txnsink.Defined
	err := s.control(ctx, func(c *pgx.Conn) error {
		rows, err := c.Query(ctx, query, pipeline)
		if err != nil {
			return err
		}
		out, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (v txnsink.Defined, err error) {
			err = row.Scan(&v.Source, &v.Target.Schema, &v.Target.Table, &v.State)
			return v, err
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the schema versions of pipeline %s: %w", pipeline, plain(err))
	}
	return out, nil
}
