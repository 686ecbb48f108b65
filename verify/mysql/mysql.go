package mysql

import (
	"context"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-sql-driver/mysql"

	"replicator/debezium"
	"replicator/schema"
	"replicator/verify"
)

const (
	defaultPort    = "3306"
	connectTimeout = 10 * time.Second
)

// tlsValues are those of the URL's tls.
var tlsValues = []string{"true", "false", "skip-verify"}

// settings decide how values are written, and that nothing is changed. A server's sql_mode may forbid zero dates in comparisons; what
// the catalog says of AUTO_INCREMENT may be a day old.
const settings = "SET SESSION time_zone = '+00:00', sql_mode = '', transaction_read_only = 1, sql_select_limit = DEFAULT /*!80000 , information_schema_stats_expiry = 0 */"

// olderSettings are for MariaDB before 11.1, which knows the variable by its old name.
const olderSettings = "SET SESSION time_zone = '+00:00', sql_mode = '', tx_read_only = 1, sql_select_limit = DEFAULT"

// Config is how a database is opened.
type Config struct {
	URL      string      // mysql://user:password@host:3306/database, or mariadb://; the database is optional. tls=true encrypts
	TLS      *tls.Config // how to speak TLS, in place of the URL's tls; nil: as the URL says
	Sessions int
	Nul      string // schema.types.nul: what the pipeline makes of NUL in text: stop, strip or replace
}

// DB is a server. Its methods may be called by several goroutines.
type DB struct {
	db  *sql.DB
	nul string
}

var _ verify.Side = (*DB)(nil)

// Open connects to a server.
func Open(ctx context.Context, c Config) (*DB, error) {
	parsed, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	if c.TLS != nil {
		parsed.TLS = c.TLS.Clone()
		if parsed.TLS.ServerName == "" {
			parsed.TLS.ServerName, _, _ = net.SplitHostPort(parsed.Addr)
		}
	}
	inner, err := mysql.NewConnector(parsed)
	if err != nil {
		return nil, errors.New("the URL cannot be used") // the driver's error may show the password
	}
	db := sql.OpenDB(connector{inner})
	db.SetMaxOpenConns(max(1, min(c.Sessions, 100)))
	db.SetMaxIdleConns(max(1, min(c.Sessions, 100)))
	if err := db.PingContext(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &DB{db, c.Nul}, nil
}

// CheckURL says whether a URL can be one of a server's. Its error does not show it.
func CheckURL(text string) error {
	_, err := parseURL(text)
	return err
}

// parseURL never shows the URL, which holds the password.
func parseURL(text string) (*mysql.Config, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || strings.Contains(u.Path, "@"):
		return nil, errors.New("the URL cannot be read; characters such as @ / # % of a password must be percent-encoded")
	case u.Scheme != "mysql" && u.Scheme != "mariadb" || u.Hostname() == "":
		return nil, errors.New("the URL must be as mysql://user:password@host:3306/")
	}
	c := mysql.NewConfig()
	for name, values := range u.Query() {
		if name != "tls" {
			return nil, fmt.Errorf("the URL has the parameter %s; it takes tls alone", name)
		}
		// The driver knows preferred as well, which goes on in plain text with a server that has no TLS, or seems to have none.
		if c.TLSConfig = values[0]; !slices.Contains(tlsValues, c.TLSConfig) {
			return nil, errors.New("tls_configuration: the URL has a tls that there is not; it must be " + strings.Join(tlsValues, ", "))
		}
	}
	port := u.Port()
	if port == "" {
		port = defaultPort
	}
	c.User, c.DBName, c.Net, c.Addr = u.User.Username(), strings.TrimPrefix(u.Path, "/"), "tcp", net.JoinHostPort(u.Hostname(), port)
	c.Passwd, _ = u.User.Password()
	c.Timeout = connectTimeout
	c.InterpolateParams = true
	c.Collation = "utf8mb4_bin" // texts are compared and grouped by their bytes
	c.Logger = &mysql.NopLogger{}
	return c, nil
}

// connector opens sessions with the settings.
type connector struct{ driver.Connector }

func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	// It is the server that speaks first: one of another kind may wait for us as we do for it.
	within, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := c.Connector.Connect(within)
	if err != nil && ctx.Err() == nil && within.Err() != nil {
		return nil, fmt.Errorf("no session began within %v: is it MySQL or MariaDB that listens there?", connectTimeout)
	}
	if err != nil {
		return nil, err
	}
	// The driver's connections all have it; without, the settings would be left out in silence.
	execer, ok := conn.(driver.ExecerContext)
	if !ok {
		return nil, errors.Join(errors.New("the driver cannot execute a statement"), conn.Close())
	}
	_, err = execer.ExecContext(ctx, settings, nil)
	var unknown *mysql.MySQLError
	if errors.As(err, &unknown) && unknown.Number == 1193 { // ER_UNKNOWN_SYSTEM_VARIABLE
		_, err = execer.ExecContext(ctx, olderSettings, nil)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("set up a session: %w", err), conn.Close())
	}
	return conn, nil
}

// Close closes the sessions.
func (d *DB) Close() error { return d.db.Close() }

// Query implements [verify.Side].
func (d *DB) Query(ctx context.Context, query string) (_ [][]*string, err error) {
	rows, err := d.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	names, err := rows.Columns()
	if err != nil {
		return nil, err
	}
	var out [][]*string
	for rows.Next() {
		row, into := make([]*string, len(names)), make([]any, len(names))
		for i := range row {
			into[i] = &row[i]
		}
		if err := rows.Scan(into...); err != nil {
			return nil, err
		}
		out = append(out, row)
	}
	return out, rows.Err()
}

// Tables implements [verify.Side].
func (d *DB) Tables(ctx context.Context) ([]schema.Name, error) {
	rows, err := d.Query(ctx, `SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_TYPE = 'BASE TABLE'
AND TABLE_SCHEMA NOT IN ('mysql', 'sys', 'performance_schema', 'information_schema') ORDER BY 1, 2`)
	var out []schema.Name
	for _, r := range rows {
		out = append(out, schema.Name{Schema: *r[0], Table: *r[1]})
	}
	return out, err
}

// Estimate implements [verify.Side].
func (d *DB) Estimate(ctx context.Context, name schema.Name) (n int64, err error) {
	err = d.db.QueryRowContext(ctx, `SELECT COALESCE(MAX(TABLE_ROWS), 0) FROM information_schema.TABLES
WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ?`, name.Schema, name.Table).Scan(&n)
	return n, err
}

// generatedKey is the invisible primary key that sql_generate_invisible_primary_key adds to a table without one.
const generatedKey = "my_row_id"

// Table implements [verify.Side].
func (d *DB) Table(ctx context.Context, name schema.Name) (_ *schema.Table, err error) {
	rows, err := d.db.QueryContext(ctx, `SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE = 'NO', LOWER(EXTRA), COALESCE(GENERATION_EXPRESSION, '') <> '', COLUMN_DEFAULT, VERSION() LIKE '%MariaDB%'
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`, name.Schema, name.Table)
	if err != nil {
		return nil, fmt.Errorf("read table %s from the catalog: %w", name, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	t := &schema.Table{}
	for rows.Next() {
		var c schema.Column
		var columnType, extra string
		var written *string
		var mariaDB bool
		if err := rows.Scan(&t.Name.Schema, &t.Name.Table, &c.Name, &columnType, &c.NotNull, &extra, &c.Generated, &written, &mariaDB); err != nil {
			return nil, err
		}
		c.Default, _ = defaultOf(written, extra, mariaDB)
		if c.Name == generatedKey && strings.Contains(extra, "invisible") {
			continue
		}
		c.Type = debezium.MySQLType("", columnType, nil, nil, nil)
		c.AutoIncrement = strings.Contains(extra, "auto_increment")
		t.Columns = append(t.Columns, c)
	}
	if err := rows.Err(); err != nil || len(t.Columns) == 0 {
		return nil, err
	}
	key, err := d.Query(ctx, "SELECT COLUMN_NAME FROM information_schema.STATISTICS WHERE INDEX_NAME = 'PRIMARY' AND COLUMN_NAME <> '"+generatedKey+"'"+
		" AND TABLE_SCHEMA = "+literal(t.Name.Schema)+" AND TABLE_NAME = "+literal(t.Name.Table)+" ORDER BY SEQ_IN_INDEX")
	for _, r := range key {
		t.PrimaryKey = append(t.PrimaryKey, text(r[0]))
	}
	return t, err
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// literal writes s as a literal that does not depend on sql_mode.
func literal(s string) string { return fmt.Sprintf("CONVERT(0x%x USING utf8mb4)", s) }
