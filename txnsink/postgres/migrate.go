package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/source"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/jackc/pgx/v5"

	"replicator/migrations"
)

const (
	migrationFolder = "postgres"
	// migrationLock is the advisory lock that lets one process at a time look at and change the own tables.
	migrationLock = 0x7265706c696361 // "replica"
)

// Migration is how far the replicator's own tables are.
type Migration struct {
	Current int // the version of the tables; 0: there are none
	Latest  int // the version that this program needs
}

// Up creates the replicator's own tables in the schema replicator of the database, or brings them up to date. It may
// run in several processes at once. If they are up to date, it asks for no right to create anything.
func Up(ctx context.Context, url string) error {
	err := migration(ctx, url, func(m *migrate.Migrate, _ source.Driver) error {
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
func Down(ctx context.Context, url string, version int) error {
	if version < 1 {
		return permanent("version %d has no tables, and the positions would be lost: the first version is 1", version)
	}
	err := migration(ctx, url, func(m *migrate.Migrate, _ source.Driver) error {
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

// Status returns how far the own tables are. It makes the schema replicator and its version table if they are missing,
// and changes nothing else.
func Status(ctx context.Context, url string) (Migration, error) {
	var out Migration
	err := migration(ctx, url, func(m *migrate.Migrate, src source.Driver) error {
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
func migration(ctx context.Context, url string, do func(*migrate.Migrate, source.Driver) error) error {
	src, err := iofs.New(migrations.Files, migrationFolder)
	if err != nil {
		return err
	}
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return permanent("target: %v", err)
	}
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	config.RuntimeParams["application_name"] = "replicator-migrate"
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("iofs", src, "postgres", &migrator{ctx: ctx, conn: conn})
	if err != nil {
		closeConn(conn)
		return err
	}
	err = do(m, src)
	sourceErr, databaseErr := m.Close()
	return errors.Join(err, sourceErr, databaseErr)
}

// migrator is golang-migrate's driver on one connection. PostgreSQL's DDL is transactional, so a migration and the
// note of its version are one transaction: there is no half-done version for people to repair.
type migrator struct {
	ctx  context.Context // golang-migrate's interface passes none; a migrator lives for one call of migration
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
