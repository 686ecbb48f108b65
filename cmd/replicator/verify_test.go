package main

import (
	"context"
	"database/sql"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"replicator/txnsink/mysql/mysqlserver"
	"replicator/verify"
)

// migration is a pipeline's stack with the source database that it would have been fed from.
type migration struct {
	*stack
	source string // its URL
	db     *sql.DB
	conn   *pgx.Conn
}

func newMigration(t *testing.T, tables ...string) *migration {
	t.Helper()
	m := &migration{stack: newStack(t, 10)}
	server, err := mysqlserver.Start(t.Context(), mysqlserver.Config{Kind: mysqlserver.MySQL9})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := server.CreateDatabase(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	m.source = strings.Replace(server.URL(""), "root@", "root:@", 1)
	u, err := url.Parse(m.source)
	if err != nil {
		t.Fatal(err)
	}
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = "root", "tcp", u.Host, "shop"
	connector, err := mysql.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	m.db = sql.OpenDB(connector)
	if m.conn, err = pgx.Connect(t.Context(), m.server.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.db.Close(); err != nil {
			t.Error(err)
		}
		if err := m.conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	for _, table := range tables {
		if err := m.broker.CreateTopic("p.shop."+table, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// atSource and atTarget run statements.
func (m *migration) atSource(t *testing.T, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := m.db.ExecContext(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func (m *migration) atTarget(t *testing.T, statements ...string) {
	t.Helper()
	for _, s := range statements {
		if _, err := m.conn.Exec(t.Context(), s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
}

func (m *migration) args(command string, more ...string) []string {
	return append([]string{command, "--config", m.file, "--set", "verify.source=" + m.source, "--lag", "10ms"}, more...)
}

func TestVerifyReportsByKeyAndColumn(t *testing.T) {
	t.Parallel()
	m := newMigration(t, "customers", "audit_log", "orders", "gone")
	m.atSource(t, "CREATE TABLE customers (id int PRIMARY KEY, name varchar(20))", "INSERT INTO customers VALUES (1, 'a'), (2, 'b'), (3, 'c')",
		"CREATE TABLE audit_log (id int PRIMARY KEY)", "INSERT INTO audit_log VALUES (1)",
		"CREATE TABLE orders (id int PRIMARY KEY)", "CREATE TABLE not_replicated (id int PRIMARY KEY)")
	m.atTarget(t, "CREATE SCHEMA crm", "CREATE TABLE crm.customer (id int PRIMARY KEY, full_name text)", "INSERT INTO crm.customer VALUES (1, 'a'), (2, 'B'), (4, 'd')")
	set := []string{"--set", `tables=[{match: 'shop\.audit_.*', skip: true}, {match: 'shop\.customers', target: crm.customer, columns: {rename: {name: full_name}}}]`}
	code, stdout, stderr := call(t, m.args("verify", set...)...)
	head, _, _ := strings.Cut(stdout, "4 rows of") // and the time that it took
	if want := `shop.customers -> crm.customer: 3 rows, 3 differences
  changed id="2": name
  missing id="3"
  extra id="4"
shop.orders -> orders: 0 rows, equal
`; code != exitDifferences || !strings.HasPrefix(head, want) {
		t.Errorf("exit code %d, got\n%swant\n%s", code, stdout, want)
	}
	if want := "replicator: topic p.shop.gone: no table of the source has this name, and it is left out\nreplicator: pipeline shop: source and target differ\n"; stderr != want {
		t.Errorf("stderr %q, want %q", stderr, want)
	}
	m.atTarget(t, "UPDATE crm.customer SET full_name = 'b' WHERE id = 2", "UPDATE crm.customer SET id = 3, full_name = 'c' WHERE id = 4")
	got := facts[verification](t, exitDone, m.args("verify", append(set, "--tables", `shop\.cust.*`)...)...)
	got.Seconds = 0
	want := verification{Equal: true, Rows: 3, Tables: []verify.TableReport{
		{Table: "shop.customers", Target: "crm.customer", Key: []string{"id"}, Rows: 3, Differences: []verify.Difference{}},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	m.atSource(t, "INSERT INTO orders VALUES (1)")
	if code, stdout, _ := call(t, m.args("verify", append(set, "--tables", `shop\.orders`)...)...); code != exitDifferences || !strings.Contains(stdout, "not compared: the target has no table orders, and the source's has rows") {
		t.Errorf("exit code %d, %s", code, stdout)
	}
}

func TestVerifyNeedsASource(t *testing.T) {
	t.Parallel()
	file := configFile(t, minimal)
	for _, c := range [][]string{{}, {"--parallel", "0"}, {"--tables", "("}} {
		code, _, stderr := call(t, append([]string{"verify", "--config", file}, c...)...)
		if code != exitUsage || !strings.Contains(stderr, "verify.source") && !strings.Contains(stderr, "--") {
			t.Errorf("%v: exit code %d, %s", c, code, stderr)
		}
	}
}
