package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"

	"replicator/migrations"
)

const (
	migrationFolder = "mysql"
	// migrationLockSeconds bounds the wait for another process that looks at or changes the own tables.
	migrationLockSeconds = 60
)

// Migration is how far the replicator's own tables are.
type Migration struct {
	Current int // the version of the tables; 0: there are none
	Latest  int // the version that this program needs
}

// Up creates the replicator's own tables, whose names begin with replicator_, in the URL's database, or brings them up to date. It may
// run in several processes at once. If they are up to date, it asks for no right to create anything.
func Up(ctx context.Context, url string, t TLS) error {
	err := migration(ctx, url, t, func(m *migrate.Migrate, _ source.Driver) error {
		err := m.Up()
		switch {
		case errors.Is(err, migrate.ErrNoChange):
			return nil
		case errors.Is(err, os.ErrNotExist):
			return permanent("they are of a later version of the replicator than this program: use that one")
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("migrate the replicator's own tables: %w", plain(err))
	}
	return nil
}

// Down brings the own tables back to an earlier version, for an older program, and loses no position: the first version's tables stay
// whatever is asked for. No pipeline may be running. Where the older tables have no room for what these say, it is an error.
func Down(ctx context.Context, url string, t TLS, version int) error {
	if version < 1 {
		return permanent("version %d has no tables, and the positions would be lost: the first version is 1", version)
	}
	err := migration(ctx, url, t, func(m *migrate.Migrate, _ source.Driver) error {
		current, _, err := m.Version()
		switch {
		case err != nil:
			return err
		case version > int(current):
			return permanent("they have version %d: Down does not bring them up to %d", current, version)
		}
		if err := m.Migrate(uint(version)); !errors.Is(err, migrate.ErrNoChange) {
			return err
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("migrate the replicator's own tables down to version %d: %w", version, plain(err))
	}
	return nil
}

// Status returns how far the own tables are. It makes their version table if it is missing, and changes nothing else.
func Status(ctx context.Context, url string, t TLS) (Migration, error) {
	var out Migration
	err := migration(ctx, url, t, func(m *migrate.Migrate, src source.Driver) error {
		current, _, err := m.Version()
		if err != nil && !errors.Is(err, migrate.ErrNilVersion) {
			return err
		}
		out.Current = int(current)
		latest, err := src.First()
		for err == nil {
			out.Latest = int(latest)
			latest, err = src.Next(latest)
		}
		if !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	})
	if err != nil {
		return out, fmt.Errorf("look at the replicator's own tables: %w", plain(err))
	}
	return out, nil
}

// migration lends do golang-migrate on the database.
func migration(ctx context.Context, url string, t TLS, do func(*migrate.Migrate, source.Driver) error) error {
	src, err := iofs.New(migrations.Files, migrationFolder)
	if err != nil {
		return err
	}
	config, err := parseURL(url, t)
	if err != nil {
		return permanent("the URL %v", err)
	}
	db, err := openDB(config, defaultLockTimeout)
	if err != nil {
		return err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	m, err := migrate.NewWithInstance("iofs", src, "mysql", &migrator{ctx: ctx, conn: conn, lock: gtridPrefix + "migrate:" + databaseHash(config.DBName)})
	if err != nil {
		return errors.Join(err, conn.Close(), db.Close())
	}
	err = do(m, src)
	sourceErr, databaseErr := m.Close()
	return errors.Join(err, sourceErr, databaseErr, db.Close())
}

// migrator is golang-migrate's driver on one connection. DDL commits by itself, so a crash may leave a part of a migration; each can
// be run again, and its version is noted when all of it is done. There is no half-done version for people to repair.
type migrator struct {
	ctx  context.Context // golang-migrate's interface passes none; a migrator lives for one call of migration
	conn *sql.Conn
	lock string // locks are the whole server's; there is one for each database
}

var _ database.Driver = (*migrator)(nil)

func (m *migrator) Open(string) (database.Driver, error) {
	return nil, errors.New("a migrator is made with a connection")
}

func (m *migrator) Close() error { return m.conn.Close() }

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
