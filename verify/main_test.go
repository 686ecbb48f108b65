package verify_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	mysqldriver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink/mysql/mysqlserver"
	"replicator/txnsink/postgres/pgserver"
	"replicator/verify"
	"replicator/verify/mysql"
	"replicator/verify/postgres"
)

var (
	pgServer     *pgserver.Server
	mysqlServers = map[mysqlserver.Kind]func() (*mysqlserver.Server, error){}
	databases    atomic.Int64

	startedMu sync.Mutex
	started   []*mysqlserver.Server
)

func TestMain(m *testing.M) {
	flag.Parse()
	for _, kind := range mysqlserver.Kinds() {
		mysqlServers[kind] = sync.OnceValues(func() (*mysqlserver.Server, error) {
			s, err := mysqlserver.Start(context.Background(), mysqlserver.Config{Kind: kind, Settings: map[string]string{"sql-mode": "", "max-allowed-packet": "64M"}})
			if err == nil {
				startedMu.Lock()
				defer startedMu.Unlock()
				started = append(started, s)
			}
			return s, err
		})
	}
	code := 1
	var err error
	if pgServer, err = pgserver.Start(context.Background(), pgserver.Config{}); err == nil {
		code = m.Run()
		err = pgServer.Stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	for _, s := range started {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// database is one side of a test: a database of its own.
type database struct {
	verify.Side
	name string
	run  func(t testing.TB, statements ...string)
}

func newPostgres(t testing.TB) database {
	t.Helper()
	name := fmt.Sprintf("t%d", databases.Add(1))
	if err := pgServer.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	db, err := postgres.Open(t.Context(), pgServer.URL(name), 4)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), pgServer.URL(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	var mu sync.Mutex
	return database{db, name, func(t testing.TB, statements ...string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		for _, s := range statements {
			if _, err := conn.PgConn().Exec(t.Context(), s).ReadAll(); err != nil {
				t.Fatalf("%.300s: %v", s, err)
			}
		}
	}}
}

func newMySQL(t testing.TB, kind mysqlserver.Kind) database {
	t.Helper()
	server, err := mysqlServers[kind]()
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("t%d", databases.Add(1))
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	db, err := mysql.Open(t.Context(), mysql.Config{URL: server.URL(name), Sessions: 4, Nul: "strip"})
	if err != nil {
		t.Fatal(err)
	}
	address := strings.TrimPrefix(strings.TrimPrefix(server.URL(name), "mariadb://root@"), "mysql://root@")
	host, _, _ := strings.Cut(address, "/")
	c := mysqldriver.NewConfig()
	c.User, c.Net, c.Addr, c.DBName, c.Collation, c.MultiStatements = "root", "tcp", host, name, "utf8mb4_bin", true
	connector, err := mysqldriver.NewConnector(c)
	if err != nil {
		t.Fatal(err)
	}
	writer := sql.OpenDB(connector)
	writer.SetMaxOpenConns(1)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		if err := writer.Close(); err != nil {
			t.Error(err)
		}
	})
	return database{db, name, func(t testing.TB, statements ...string) {
		t.Helper()
		for _, s := range statements {
			if _, err := writer.ExecContext(t.Context(), s); err != nil {
				t.Fatalf("%.300s: %v", s, err)
			}
		}
	}}
}

// pair reads both catalogs.
func pair(t testing.TB, source, target database, table string, rules sqlgen.Rules) verify.Pair {
	t.Helper()
	name := schema.Name{Schema: source.name, Table: table}
	if _, ok := source.Side.(*postgres.DB); ok {
		name.Schema = "public"
	}
	s, err := verify.Find(t.Context(), source, name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := verify.Find(t.Context(), target, schema.Name{Table: table})
	if err != nil {
		t.Fatal(err)
	}
	return verify.Pair{Source: s, Target: d, Rules: rules}
}

// counted counts the statements that divide a range whose sums differ.
type counted struct {
	verify.Side
	divided *atomic.Int64
}

func (c counted) Query(ctx context.Context, sql string) ([][]*string, error) {
	if strings.Contains(sql, " GROUP BY ") {
		c.divided.Add(1)
	}
	return c.Side.Query(ctx, sql)
}

func compare(t testing.TB, c verify.Config) []verify.TableReport {
	t.Helper()
	c.Names = sqlgen.Postgres{}
	if c.Lag == 0 {
		c.Lag = time.Millisecond
	}
	reports, err := verify.Compare(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return reports
}
