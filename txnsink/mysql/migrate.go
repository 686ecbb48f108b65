package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/golang-migrate/migrate/v4/database"

	"replicator/migrations"
)

// migrationLockSeconds bounds the wait for another process that looks at or changes the own tables.
const migrationLockSeconds = 60

// Up creates the replicator's own tables, whose names begin with replicator_, in the URL's database, or brings them up to date: see
// [migrations.Tables.Up].
func Up(ctx context.Context, url string, t TLS) error { return tablesAt(ctx, url, t).Up() }

// Down brings the own tables back to an earlier version: see [migrations.Tables.Down].
func Down(ctx context.Context, url string, t TLS, version int) error {
	return tablesAt(ctx, url, t).Down(version)
}

// Status returns how far the own tables are. It changes nothing.
func Status(ctx context.Context, url string, t TLS) (migrations.State, error) {
	return tablesAt(ctx, url, t).Status()
}

func tablesAt(ctx context.Context, url string, t TLS) migrations.Tables {
	open := func() (database.Driver, error) {
		config, err := parseURL(url, t)
		if err != nil {
			return nil, permanent("the URL %v", err)
		}
		db, err := openDB(config, defaultLockTimeout)
		if err != nil {
			return nil, err
		}
		conn, err := db.Conn(ctx)
		if err != nil {
			return nil, errors.Join(err, db.Close())
		}
		return &migrator{ctx: ctx, db: db, conn: conn, lock: gtridPrefix + "migrate:" + databaseHash(config.DBName)}, nil
	}
	return migrations.Tables{Kind: "mysql", Open: open, Plain: plain}
}

// migrator is golang-migrate's driver on one connection. DDL commits by itself, so a crash may leave a part of a migration; each can
// be run again, and its version is noted when all of it is done. There is no half-done version for people to repair.
type migrator struct {
	ctx  context.Context // golang-migrate's interface passes none; a migrator lives for one call of Up, Down or Status
	db   *sql.DB         // conn's
	conn *sql.Conn
	lock string // locks are the whole server's; there is one for each database
}

var _ database.Driver = (*migrator)(nil)

func (m *migrator) Open(string) (database.Driver, error) {
	return nil, errors.New("a migrator is made with a connection")
}

func (m *migrator) Close() error { return errors.Join(m.conn.Close(), m.db.Close()) }

func (m *migrator) exec(sql string, args ...any) error {
	_, err := m.conn.ExecContext(m.ctx, sql, args...)
	return err
}

// Lock waits for other processes and then sees to the version table, without asking for the right to create it where it is there.
func (m *migrator) Lock() error {
	var got sql.NullInt64
	if err := m.conn.QueryRowContext(m.ctx, "SELECT GET_LOCK(?, ?)", m.lock, migrationLockSeconds).Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return fmt.Errorf("another process has been at it for %d s", migrationLockSeconds)
	}
	var there int
	const query = `SELECT count(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'replicator_schema_migrations'`
	if err := m.conn.QueryRowContext(m.ctx, query).Scan(&there); err != nil {
		return err
	}
	if there == 0 {
		return m.exec("CREATE TABLE IF NOT EXISTS replicator_schema_migrations (version bigint NOT NULL PRIMARY KEY) ENGINE = InnoDB")
	}
	return nil
}

func (m *migrator) Unlock() error { return m.exec("DO RELEASE_LOCK(?)", m.lock) }

// Run runs the statements of a migration, each of which ends with a semicolon at the end of its line.
func (m *migrator) Run(r io.Reader) error {
	text, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	for _, sql := range strings.SplitAfter(string(text), ";\n") {
		if strings.TrimSpace(sql) == "" {
			continue
		}
		if err := m.exec(sql); err != nil {
			return err
		}
	}
	return nil
}

// SetVersion is called with dirty before a migration, which notes nothing, and without after it.
func (m *migrator) SetVersion(version int, dirty bool) error {
	if dirty {
		return nil
	}
	if version < 0 {
		return m.exec("DELETE FROM replicator_schema_migrations")
	}
	if err := m.exec("INSERT IGNORE INTO replicator_schema_migrations (version) VALUES (?)", version); err != nil {
		return err
	}
	return m.exec("DELETE FROM replicator_schema_migrations WHERE version <> ?", version)
}

// Version returns the highest one that is noted: a crash may leave the one before beside it.
func (m *migrator) Version() (version int, dirty bool, err error) {
	var found sql.NullInt64
	err = m.conn.QueryRowContext(m.ctx, "SELECT max(version) FROM replicator_schema_migrations").Scan(&found)
	if number(err) == errNoSuchTable || err == nil && !found.Valid {
		return database.NilVersion, false, nil
	}
	return int(found.Int64), false, err
}

// Drop is not offered: the own tables say what is committed.
func (m *migrator) Drop() error { return errors.New("the replicator's own tables are not dropped") }
