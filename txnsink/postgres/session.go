package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"replicator/sqlgen"
	"replicator/txnsink"
)

// maxStatements bounds the prepared statements of a session. A statement's text depends on its table and on the
// columns that events sent, so their number has no bound of its own.
const maxStatements = 256

// session is a worker's connection and what was prepared on it.
type session struct {
	conn       *pgx.Conn
	statements map[string]*prepared // by SQL text
	clock      int64                // counts uses
	names      int64                // counts names
	cautions   txnsink.Cautions
}

type prepared struct {
	name string
	used int64
}

// planner holds the planner of an apply session to the indexes (see plan). JIT would take longer to compile a statement than
// the server to run it.
const planner = `SET enable_seqscan = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET jit = off`

// openSession opens the session of the ID's worker in its epoch. A process that was fenced meanwhile gets none.
func (s *Sink) openSession(ctx context.Context, id txnsink.ID) (*session, error) {
	conn, err := s.connect(ctx, workerName(id.Pipeline, id.Epoch, id.Worker))
	if err != nil {
		return nil, err
	}
	var epoch int64
	const query = `SELECT epoch FROM replicator.witness WHERE pipeline = $1 AND worker = $2`
	err = conn.QueryRow(ctx, query, id.Pipeline, id.Worker).Scan(&epoch)
	switch {
	case err != nil && !errors.Is(err, pgx.ErrNoRows):
		err = plain(err)
	case err != nil || epoch < id.Epoch:
		err = fmt.Errorf("the witness of worker %d is not at epoch %d: somebody has changed replicator.witness", id.Worker, id.Epoch)
	case epoch > id.Epoch:
		err = fmt.Errorf("%w: epoch %d is at work", txnsink.ErrFenced, epoch)
	default:
		if err = conn.PgConn().Exec(ctx, planner).Close(); err != nil {
			err = plain(err)
		}
	}
	if err != nil {
		closeConn(conn)
		return nil, err
	}
	return &session{conn: conn, statements: make(map[string]*prepared)}, nil
}

func (c *session) close() { closeConn(c.conn) }

// usable says whether the session can take another transaction.
func (c *session) usable() bool { return !c.conn.IsClosed() && c.conn.PgConn().TxStatus() == 'I' }

// prepare returns the name of sql as a prepared statement.
func (c *session) prepare(ctx context.Context, sql string) (string, error) {
	c.clock++
	if p := c.statements[sql]; p != nil {
		p.used = c.clock
		return p.name, nil
	}
	c.names++
	name := "r" + strconv.FormatInt(c.names, 10)
	if _, err := c.conn.PgConn().Prepare(ctx, name, sql, nil); err != nil {
		return "", err
	}
	c.statements[sql] = &prepared{name: name, used: c.clock}
	return name, nil
}

// trim deallocates the statements that were used least recently, down to maxStatements. It is called between batches,
// whose own statements must stay.
func (c *session) trim(ctx context.Context) error {
	for len(c.statements) > maxStatements {
		oldest := ""
		for sql, p := range c.statements {
			if oldest == "" || p.used < c.statements[oldest].used {
				oldest = sql
			}
		}
		if err := c.conn.PgConn().Deallocate(ctx, c.statements[oldest].name); err != nil {
			return err
		}
		delete(c.statements, oldest)
	}
	return nil
}

// add appends s to a round trip.
func (c *session) add(ctx context.Context, b *pgconn.Batch, s *sqlgen.Statement) error {
	name, err := c.prepare(ctx, s.SQL)
	if err != nil {
		return err
	}
	values := make([][]byte, len(s.Args))
	for i, a := range s.Args {
		array, ok := a.(sqlgen.Array)
		if !ok {
			return fmt.Errorf("argument %d of a statement on table %s is no sqlgen.Array but %T", i+1, s.Table, a)
		}
		values[i] = array.Data
	}
	b.ExecPrepared(name, values, []int16{pgx.BinaryFormatCode}, nil)
	return nil
}

// run sends b and returns the tags of the statements that succeeded. The first that did not has the error.
func (c *session) run(ctx context.Context, b *pgconn.Batch) ([]pgconn.CommandTag, error) {
	results := c.conn.PgConn().ExecBatch(ctx, b)
	var tags []pgconn.CommandTag
	for results.NextResult() {
		tag, err := results.ResultReader().Close()
		if err != nil {
			break // results has it too
		}
		tags = append(tags, tag)
	}
	return tags, results.Close()
}

// simple runs one statement, whose tag is its first word.
func (c *session) simple(ctx context.Context, sql string) error {
	tag, _, _ := strings.Cut(sql, " ")
	return simple(ctx, c.conn.PgConn(), sql, tag)
}
