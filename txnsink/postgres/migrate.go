package postgres

import (
	"context"
	"errors"
	"io"

	"github.com/golang-migrate/migrate/v4/database"
	"github.com/jackc/pgx/v5"

	"replicator/migrations"
)

// migrationLock is the advisory lock that lets one process at a time look at and change the own tables.
const migrationLock = 0x7265706c696361 // "replica"

// Up creates the replicator's own tables in the schema replicator of the database, or brings them up to date: see
// [migrations.Tables.Up].
func Up(ctx context.Context, url string) error { return tablesAt(ctx, url).Up() }

// Down brings the own tables back to an earlier version: see [migrations.Tables.Down].
func Down(ctx context.Context, url string, version int) error {
	return tablesAt(ctx, url).Down(version)
}

// Status returns how far the own tables are. It changes nothing.
func Status(ctx context.Context, url string) (migrations.State, error) {
	return tablesAt(ctx, url).Status()
}

func tablesAt(ctx context.Context, url string) migrations.Tables {
	open := func() (database.Driver, error) {
		config, err := pgx.ParseConfig(url)
		if err != nil {
			return nil, permanent("target: %v", err)
		}
		config.DefaultQueryExecMode = pgx.QueryExecModeExec
		config.RuntimeParams["application_name"] = "replicator-migrate"
		conn, err := pgx.ConnectConfig(ctx, config)
		if err != nil {
			return nil, err
		}
		return &migrator{ctx: ctx, conn: conn}, nil
	}
	return migrations.Tables{Kind: "postgres", Open: open, Plain: plain}
}

// migrator is golang-migrate's driver on one connection. PostgreSQL's DDL is transactional, so a migration and the
// note of its version are one transaction: there is no half-done version for people to repair.
type migrator struct {
	ctx  context.Context // golang-migrate's interface passes none; a migrator lives for one call of Up, Down or Status
	conn *pgx.Conn
}

var _ database.Driver = (*migrator)(nil)

func (m *migrator) Open(string) (database.Driver, error) {
	return nil, errors.New("a migrator is made with a connection")
}

func (m *migrator) Close() error {
	closeConn(m.conn)
	return nil
}

func (m *migrator) exec(sql string, args ...any) error {
	_, err := m.conn.Exec(m.ctx, sql, args...)
	return err
}

// Lock waits for other processes and then sees to the schema and the version table, which CREATE IF NOT EXISTS
// alone would not: it fails when two do it at once, and it asks for the right to create also where nothing is missing.
func (m *migrator) Lock() error {
	if err := m.exec("SELECT pg_advisory_lock($1)", int64(migrationLock)); err != nil {
		return err
	}
	var schema, table bool
	const query = `SELECT to_regnamespace('replicator') IS NOT NULL, to_regclass('replicator.schema_migrations') IS NOT NULL`
	if err := m.conn.QueryRow(m.ctx, query).Scan(&schema, &table); err != nil {
		return err
	}
	if !schema {
		if err := m.exec("CREATE SCHEMA replicator"); err != nil {
			return err
		}
	}
	if !table {
		return m.exec("CREATE TABLE replicator.schema_migrations (version bigint PRIMARY KEY, dirty boolean NOT NULL)")
	}
	return nil
}

// Unlock undoes a migration that failed.
func (m *migrator) Unlock() error {
	if m.conn.PgConn().TxStatus() != 'I' {
		if err := m.exec("ROLLBACK"); err != nil {
			return err
		}
	}
	return m.exec("SELECT pg_advisory_unlock($1)", int64(migrationLock))
}

func (m *migrator) Run(r io.Reader) error {
	sql, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	return m.conn.PgConn().Exec(m.ctx, string(sql)).Close()
}

// SetVersion is called with dirty before a migration and without after it.
func (m *migrator) SetVersion(version int, dirty bool) error {
	if dirty {
		if err := m.exec("BEGIN"); err != nil {
			return err
		}
	}
	if err := m.exec("DELETE FROM replicator.schema_migrations"); err != nil {
		return err
	}
	if version >= 0 {
		if err := m.exec("INSERT INTO replicator.schema_migrations (version, dirty) VALUES ($1, $2)", version, dirty); err != nil {
			return err
		}
	}
	if !dirty && m.conn.PgConn().TxStatus() != 'I' {
		return simple(m.ctx, m.conn.PgConn(), "COMMIT", "COMMIT")
	}
	return nil
}

func (m *migrator) Version() (version int, dirty bool, err error) {
	err = m.conn.QueryRow(m.ctx, "SELECT version, dirty FROM replicator.schema_migrations").Scan(&version, &dirty)
	if errors.Is(err, pgx.ErrNoRows) || code(err) == codeUndefinedTable || code(err) == codeUndefinedSchema {
		return database.NilVersion, false, nil
	}
	return version, dirty, err
}

// Drop is not offered: the own tables say what is committed.
func (m *migrator) Drop() error { return errors.New("the replicator's own tables are not dropped") }
