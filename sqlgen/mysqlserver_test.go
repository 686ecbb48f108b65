package sqlgen

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/go-sql-driver/mysql"

	"replicator/debezium"
	"replicator/schema"
	"replicator/txnsink/mysql/mysqlserver"
)

// servers are the MySQL and MariaDB servers that this package's tests share, each started when the first test wants it.
var servers struct {
	sync.Mutex
	running map[mysqlserver.Kind]*mysqlserver.Server
	failed  map[mysqlserver.Kind]error
	count   int
}

func TestMain(m *testing.M) {
	servers.running, servers.failed = map[mysqlserver.Kind]*mysqlserver.Server{}, map[mysqlserver.Kind]error{}
	code := m.Run()
	for _, s := range servers.running {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// mysqlDatabase is an empty database, and a session that is set as MySQL's text says.
type mysqlDatabase struct {
	MySQL
	conn *sql.Conn
}

// onEachMySQL runs f on a database of each kind of server.
func onEachMySQL(t *testing.T, f func(t *testing.T, db mysqlDatabase)) {
	t.Helper()
	for _, kind := range mysqlserver.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			f(t, newMySQL(t, kind))
		})
	}
}

func newMySQL(tb testing.TB, kind mysqlserver.Kind) mysqlDatabase {
	tb.Helper()
	address, name := mysqlAddress(tb, kind)
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName, c.ClientFoundRows = "root", "tcp", address, name, true
	c.Params = map[string]string{
		"time_zone": "'+00:00'", "foreign_key_checks": "0", "sql_mode": "'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,NO_ENGINE_SUBSTITUTION'",
	}
	connector, err := mysql.NewConnector(c)
	if err != nil {
		tb.Fatal(err)
	}
	pool := sql.OpenDB(connector)
	conn, err := pool.Conn(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := errors.Join(conn.Close(), pool.Close()); err != nil {
			tb.Error(err)
		}
	})
	return mysqlDatabase{MySQL: MySQL{MariaDB: kind == mysqlserver.MariaDB, Vector: kind == mysqlserver.MySQL9, MaxPacket: 1 << 20}, conn: conn}
}

// mysqlAddress starts the server if need be, and makes a database on it.
func mysqlAddress(tb testing.TB, kind mysqlserver.Kind) (address, database string) {
	tb.Helper()
	servers.Lock()
	defer servers.Unlock()
	if servers.running[kind] == nil && servers.failed[kind] == nil {
		s, err := mysqlserver.Start(context.Background(), mysqlserver.Config{Kind: kind, Settings: map[string]string{"local-infile": "ON"}})
		if err != nil {
			servers.failed[kind] = err
		} else {
			servers.running[kind] = s
		}
	}
	if err := servers.failed[kind]; err != nil {
		tb.Fatal(err)
	}
	servers.count++
	name := fmt.Sprintf("d%d", servers.count)
	s := servers.running[kind]
	if err := s.CreateDatabase(tb.Context(), name); err != nil {
		tb.Fatal(err)
	}
	u, err := url.Parse(s.URL(name))
	if err != nil {
		tb.Fatal(err)
	}
	return u.Host, name
}

func (db mysqlDatabase) exec(tb testing.TB, statements ...string) {
	tb.Helper()
	for _, s := range statements {
		if _, err := db.conn.ExecContext(tb.Context(), s); err != nil {
			tb.Fatalf("%v\n%.2000s", err, s)
		}
	}
}

// rows are a query's rows as text.
func (db mysqlDatabase) rows(tb testing.TB, query string) []string {
	tb.Helper()
	rows, err := db.conn.QueryContext(tb.Context(), query)
	if err != nil {
		tb.Fatalf("%v\n%.2000s", err, query)
	}
	defer func() {
		if err := rows.Close(); err != nil {
			tb.Error(err)
		}
	}()
	names, err := rows.Columns()
	if err != nil {
		tb.Fatal(err)
	}
	var out []string
	for rows.Next() {
		values, into := make([]sql.NullString, len(names)), make([]any, len(names))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			tb.Fatal(err)
		}
		texts := make([]string, len(names))
		for i, v := range values {
			texts[i] = "NULL"
			if v.Valid {
				texts[i] = v.String
			}
		}
		out = append(out, strings.Join(texts, "|"))
	}
	if err := rows.Err(); err != nil {
		tb.Fatal(err)
	}
	return out
}

// apply runs statements in a transaction, which an error undoes. The error's class is that of a guard, or of a
// duplicate key.
func (db mysqlDatabase) apply(tb testing.TB, list []Statement) error {
	tb.Helper()
	tx, err := db.conn.BeginTx(tb.Context(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range list {
		if err := applyMySQL(tb.Context(), tx, s); err != nil {
			if undo := tx.Rollback(); undo != nil {
				tb.Fatal(undo)
			}
			return fmt.Errorf("%w\n%.4000s", err, s.SQL)
		}
	}
	return tx.Commit()
}

func applyMySQL(ctx context.Context, tx *sql.Tx, s Statement) error {
	result, err := tx.ExecContext(ctx, s.SQL)
	var refused *mysql.MySQLError
	if errors.As(err, &refused) {
		class := MySQLGuards[refused.Number]
		if refused.Number == 1062 {
			class = UniqueViolation
		}
		return &RowError{Class: class, Table: s.Table, Err: err}
	}
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && s.Want >= 0 && n != s.Want {
		err = &RowError{Class: MissingRow, Table: s.Table, Err: fmt.Errorf("%d rows were found, want %d", n, s.Want)}
	}
	return err
}

// addAll folds events into a batch of its own, and returns its statements.
func addAll(tb testing.TB, target *Target, events ...debezium.Event) []Statement {
	tb.Helper()
	b := NewBatch(target.dialect)
	for i := range events {
		if err := b.Add(target, &events[i]); err != nil {
			tb.Fatal(err)
		}
	}
	return b.Statements()
}

// mysqlTable is a table's shape by the types that the catalog would give.
func mysqlTable(name string, key []string, columns ...string) schema.Table {
	t := schema.Table{Name: schema.Name{Table: name}, PrimaryKey: key}
	for i := 0; i < len(columns); i += 2 {
		t.Columns = append(t.Columns, schema.Column{Name: columns[i], Type: MySQLType(columns[i+1])})
	}
	return t
}

func (db mysqlDatabase) target(tb testing.TB, t schema.Table, c TargetConfig) *Target {
	tb.Helper()
	target, err := NewTarget(db.MySQL, t, c)
	if err != nil {
		tb.Fatal(err)
	}
	return target
}
