package mysql

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"
)

// settings is what every session begins with: the meaning of a statement must not depend on what the server has for defaults, and
// the dialect says what it needs (see sqlgen.MySQL). Unique keys are checked: unique_checks=0 would let InnoDB store
// duplicates. Foreign keys are not: the source has checked them, and lanes apply tables in an order of their own.
// wait_timeout bounds how long a session whose process is gone without a word keeps what it has open. The comments of
// the form /*!80000 */ are for MySQL alone, /*M! */ for MariaDB.
const settings = `SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION',
	foreign_key_checks = 0, unique_checks = 1, autocommit = 1, sql_safe_updates = 0, sql_select_limit = DEFAULT, wait_timeout = 28800,
	innodb_lock_wait_timeout = %[1]d, lock_wait_timeout = %[1]d
	/*!80000 , max_execution_time = 0 */
	/*M! , max_statement_time = 0, idle_transaction_timeout = 0, idle_write_transaction_timeout = 0, idle_readonly_transaction_timeout = 0 */`

// connector opens sessions with the settings.
type connector struct {
	driver.Connector
	greeting time.Duration // how long the server may take to let a session begin
	settings []string
}

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	conn, err := c.greeted(ctx)
	if err != nil {
		return nil, err
	}
	for _, sql := range c.settings {
		// The driver's connections all have it; without, the settings would be left out in silence.
		execer, ok := conn.(driver.ExecerContext)
		if !ok {
			return nil, errors.Join(errors.New("the driver cannot execute a statement"), conn.Close())
		}
		if _, err := execer.ExecContext(ctx, sql, nil); err != nil {
			return nil, errors.Join(fmt.Errorf("set up a session: %w", err), conn.Close())
		}
	}
	return conn, nil
}

// greeted opens a session. It is the server that speaks first: one of another kind may wait for us as we do for it.
func (c connector) greeted(ctx context.Context) (driver.Conn, error) {
	within, cancel := context.WithTimeout(ctx, c.greeting)
	defer cancel()
	conn, err := c.Connector.Connect(within)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		return nil, fmt.Errorf("no session began within %v: is it MySQL or MariaDB that listens there?", c.greeting)
	}
	return conn, err
}

// OpenDB returns a pool of sessions on the database of a URL, as mysql://user:password@host:3306/database or with mariadb://, which
// have the sink's settings. A statement waits at most lockTimeout for a lock. It
// connects to nothing yet.
func OpenDB(url string, t TLS, lockTimeout time.Duration) (*sql.DB, error) {
	c, err := parseURL(url, t)
	if err != nil {
		return nil, err
	}
	return openDB(c, lockTimeout)
}

// CloseDB closes a pool. That an idle session was broken before, as by a server that has started again, is no failure: it is gone.
func CloseDB(db *sql.DB) error {
	if err := db.Close(); err != nil && !lost(err) {
		return plain(err)
	}
	return nil
}

func openDB(c *mysql.Config, lockTimeout time.Duration) (*sql.DB, error) {
	inner, err := mysql.NewConnector(c)
	if err != nil {
		return nil, permanent("the URL cannot be used: %v", err)
	}
	seconds := max(1, int64(lockTimeout/time.Second))
	return sql.OpenDB(connector{inner, dialTimeout, []string{
		fmt.Sprintf(settings, seconds),
		"SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE",
	}}), nil
}

// facts is what a server says of itself.
type facts struct {
	version   string
	mariaDB   bool
	number    int    // of the version, as in 80031
	database  string // the connection's
	maxPacket int
	// detaches says whether a session is free after XA PREPARE.
	detaches bool
	// loads says whether LOAD DATA LOCAL works, and within a transaction: Galera can be set to commit it in parts.
	loads bool
}

// The first versions that are served: MySQL's aliases of rows, and what is tried of MariaDB.
const (
	oldestMySQL   = 80019
	oldestMariaDB = 101100
	detachMySQL   = 80029 // xa_detach_on_prepare
	vectorMySQL   = 90000
	vectorMariaDB = 110700
)

// look asks the server.
func look(ctx context.Context, db *sql.DB) (facts, error) {
	var f facts
	err := db.QueryRowContext(ctx, "SELECT VERSION(), DATABASE(), @@max_allowed_packet").Scan(&f.version, &f.database, &f.maxPacket)
	if err != nil {
		return f, plain(err)
	}
	f.mariaDB = strings.Contains(f.version, "MariaDB")
	f.number = versionNumber(f.version)
	switch {
	case f.mariaDB && f.number < oldestMariaDB:
		return f, permanent("the server is MariaDB %s: upgrade it to 10.11 or later", f.version)
	case !f.mariaDB && f.number < oldestMySQL:
		return f, permanent("the server is MySQL %s: upgrade it to 8.0.19 or later, for two-phase delivery to 8.0.30 or later", f.version)
	case !f.mariaDB && f.number >= detachMySQL:
		if err := db.QueryRowContext(ctx, "SELECT @@session.xa_detach_on_prepare").Scan(&f.detaches); err != nil {
			return f, plain(err)
		}
	}
	return f, nil
}

// versionNumber reads the three numbers that a version begins with; 0 if it does not.
func versionNumber(version string) int {
	text, _, _ := strings.Cut(version, "-")
	n := 0
	for i, part := range strings.SplitN(text, ".", 4) {
		v, err := strconv.Atoi(part)
		if err != nil || i == 3 || v > 99 {
			break
		}
		for j := i; j < 2; j++ {
			v *= 100
		}
		n += v
	}
	return n
}
