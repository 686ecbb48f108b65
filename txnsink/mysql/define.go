package mysql

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/schema"
	"replicator/txnsink"
)

// Define runs DDL, each statement by itself: it would commit a transaction, and XA refuses it. A transaction of another session keeps
// a later epoch out meanwhile, and notes at last what was defined. What must not fail when it was run before a crash says
// IF NOT EXISTS.
func (s *Sink) Define(ctx context.Context, d txnsink.Definition) (err error) {
	for _, v := range d.Defined {
		if s.own(v.Target) {
			return permanent("%s cannot be the target of %s: the replicator's own tables have such names; give it another place by target.table, or by a rule's target", v.Target, v.Source)
		}
	}
	conn, err := s.control.Conn(ctx)
	if err != nil {
		return fmt.Errorf("change the schema of the target: %w", plain(err))
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if d.Of != nil {
		release, err := s.lockName(ctx, conn, d.Of.Name)
		if err != nil {
			return err
		}
		return errors.Join(s.define(ctx, conn, d), release())
	}
	return s.define(ctx, conn, d)
}

// define is Define on a session that notes what was defined.
func (s *Sink) define(ctx context.Context, conn *sql.Conn, d txnsink.Definition) (err error) {
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("change the schema of the target: %w", plain(err))
	}
	defer func() {
		if rollbackErr := tx.Rollback(); !errors.Is(rollbackErr, sql.ErrTxDone) {
			err = errors.Join(err, rollbackErr)
		}
	}()
	if d.Epoch != 0 {
		if err := keepOut(ctx, tx, d); err != nil {
			return err
		}
	}
	if d.Of != nil {
		if now, err := s.Table(ctx, d.Of.Name); err != nil {
			return err
		} else if err := d.Of.Still(now); err != nil {
			return err
		}
	}
	for _, sql := range d.DDL {
		if _, err := s.control.ExecContext(ctx, sql); err != nil {
			return defineError(sql, err)
		}
	}
	const note = `INSERT INTO replicator_schema_version (pipeline, by_source, source, target_schema, target_table, state, updated)
VALUES (?, ?, ?, ?, ?, ?, UTC_TIMESTAMP(6))
ON DUPLICATE KEY UPDATE target_schema = VALUES(target_schema), target_table = VALUES(target_table), state = VALUES(state), updated = VALUES(updated)`
	for _, v := range d.Defined {
		by := sha256.Sum256([]byte(v.Source))
		if _, err := tx.ExecContext(ctx, note, d.Pipeline, by[:], v.Source, v.Target.Schema, v.Target.Table, v.State); err != nil {
			return fmt.Errorf("note the schema of the target: %w", plain(err))
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("note the schema of the target: %w", plain(err))
	}
	return nil
}

// keepOut returns ErrFenced if a later epoch is at work, and otherwise keeps it out until the transaction ends.
func keepOut(ctx context.Context, tx *sql.Tx, d txnsink.Definition) error {
	const query = `SELECT epoch FROM replicator_witness WHERE pipeline = ? AND worker = 0 LOCK IN SHARE MODE`
	var epoch int64
	err := tx.QueryRowContext(ctx, query, d.Pipeline).Scan(&epoch)
	switch {
	case errors.Is(err, sql.ErrNoRows) || err == nil && epoch < d.Epoch:
		return fmt.Errorf("the witness of worker 0 is not at epoch %d: somebody has changed replicator_witness", d.Epoch)
	case number(err) == errLockWait:
		return fmt.Errorf("change the schema of the target: the witness is locked: %w: %w", txnsink.ErrBusy, plain(err))
	case err != nil:
		return fmt.Errorf("change the schema of the target: %w", plain(err))
	case epoch > d.Epoch:
		return fmt.Errorf("%w: epoch %d is at work", txnsink.ErrFenced, epoch)
	}
	return nil
}

// The longest that a definition waits for another process's of the same table, and to say that it is done.
const (
	defineWait    = 10 // seconds
	releaseWithin = 5 * time.Second
)

// lockName keeps other processes from changing a table by what they had planned for it, until release. A lock of the table would end
// with the first statement.
func (s *Sink) lockName(ctx context.Context, conn *sql.Conn, name schema.Name) (release func() error, err error) {
	sum := sha256.Sum256([]byte(cmp.Or(name.Schema, s.facts.database) + "." + name.Table))
	key := "replicator " + hex.EncodeToString(sum[:16])
	var held sql.NullBool
	if err := conn.QueryRowContext(ctx, "SELECT GET_LOCK(?, ?)", key, defineWait).Scan(&held); err != nil {
		return nil, fmt.Errorf("change the schema of the target: %w", plain(err))
	}
	if !held.Bool {
		return nil, fmt.Errorf("change table %v of the target: another process is at it for more than %d s: %w", name, defineWait, txnsink.ErrBusy)
	}
	return func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseWithin) // the connection is used again, whatever came of the definition
		defer cancel()
		if _, err := conn.ExecContext(ctx, "DO RELEASE_LOCK(?)", key); err != nil && !lost(err) {
			return fmt.Errorf("change the schema of the target: %w", plain(err))
		}
		return nil
	}, nil
}

// defineError says which statement failed. What is wrong with a statement, or with the rows that it would convert, is wrong
// the next time too, unless the catalog has changed since the statement was planned.
func defineError(sql string, err error) error {
	if overtaken(number(err)) {
		return fmt.Errorf("change the schema of the target by %q, which was planned for another state of the table: %w", sql, plain(err))
	}
	if noFile(err) {
		return permanent("change the schema of the target by %q: %v; a table's name becomes a file's, of at most 255 bytes, in which each character that is not of A-Z a-z 0-9 _ takes up to 5: "+
			"give the table another by a rule's target", sql, plain(err))
	}
	if dataError(err) || sqlClass(err) == "42" {
		return permanent("change the schema of the target by %q: %v; change the target by hand, or set schema.evolve for this table", sql, plain(err))
	}
	return fmt.Errorf("change the schema of the target by %q: %w", sql, plain(err))
}

// noFile says whether the server could not make the file of a table: MariaDB says why, MySQL only that the engine failed.
func noFile(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && (e.Number == errCannotCreate && strings.Contains(e.Message, "errno: 36") || e.Number == errEngine && strings.Contains(e.Message, "error 168"))
}

// overtaken says whether an error is that a thing is there already, or is no longer. The server goes on with a long ALTER TABLE when its
// client is gone: what was planned again meanwhile comes too late, and is to be planned once more.
func overtaken(number uint16) bool {
	switch number {
	case errTableExists, errNoColumn, errColumnExists, errIndexExists, errNoIndex, errSecondKey, errCannotDrop, errNoSuchTable:
		return true
	}
	return false
}

// Defined reads what Define had noted.
func (s *Sink) Defined(ctx context.Context, pipeline string) (out []txnsink.Defined, err error) {
	const query = `SELECT source, target_schema, target_table, state FROM replicator_schema_version WHERE pipeline = ? ORDER BY source`
	rows, err := s.control.QueryContext(ctx, query, pipeline)
	if err != nil {
		return nil, fmt.Errorf("read the schema versions of pipeline %s: %w", pipeline, plain(err))
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var v txnsink.Defined
		if err := rows.Scan(&v.Source, &v.Target.Schema, &v.Target.Table, &v.State); err != nil {
			return nil, fmt.Errorf("read the schema versions of pipeline %s: %w", pipeline, plain(err))
		}
		out = append(out, v)
	}
	return out, rows.Err()
}

// own says whether a table may be one of the replicator's own, to which whoever names the source's tables must not write.
func (s *Sink) own(name schema.Name) bool {
	const prefix = "replicator_"
	return (name.Schema == "" || strings.EqualFold(name.Schema, s.facts.database)) && len(name.Table) > len(prefix) && strings.EqualFold(name.Table[:len(prefix)], prefix)
}
