package mysql

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
	"replicator/txnsink/mysql/mysqlserver"
	"replicator/txnsink/sinktest"
)

// servers holds one of each kind, started by the first test that asks.
var servers = map[mysqlserver.Kind]func() (*mysqlserver.Server, error){}

func TestMain(m *testing.M) {
	flag.Parse()
	var mu sync.Mutex
	var started []*mysqlserver.Server
	for _, kind := range mysqlserver.Kinds() {
		servers[kind] = sync.OnceValues(func() (*mysqlserver.Server, error) {
			s, err := mysqlserver.Start(context.Background(), mysqlserver.Config{Kind: kind, Settings: map[string]string{"local-infile": "ON"}})
			if err == nil {
				mu.Lock()
				started = append(started, s)
				mu.Unlock()
			}
			return s, err
		})
	}
	code := m.Run()
	for _, s := range started {
		if err := s.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// onEach runs a test on a server of each kind.
func onEach(t *testing.T, test func(t *testing.T, server *mysqlserver.Server)) {
	t.Helper()
	t.Parallel()
	for _, kind := range mysqlserver.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, err := servers[kind]()
			if err != nil {
				t.Fatal(err)
			}
			test(t, server)
		})
	}
}

// ownServer starts a server that the test may kill. It syncs its logs as a real one does.
func ownServer(t *testing.T, kind mysqlserver.Kind, settings map[string]string) *mysqlserver.Server {
	t.Helper()
	s, err := mysqlserver.Start(t.Context(), mysqlserver.Config{Kind: kind, Durable: true, Settings: settings})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var databases atomic.Int64

// newDatabase returns the URL of a new database with the own tables.
func newDatabase(t testing.TB, server *mysqlserver.Server) string {
	t.Helper()
	name := fmt.Sprintf("t%d", databases.Add(1))
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := Up(t.Context(), server.URL(name), nil); err != nil {
		t.Fatal(err)
	}
	return server.URL(name)
}

// pool opens a pool for a test's own eyes.
func pool(t testing.TB, url string) *sql.DB {
	t.Helper()
	db, err := OpenDB(url, nil, defaultLockTimeout)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

// execute runs statements on one session, which is closed after them.
func execute(t testing.TB, url string, statements ...string) {
	t.Helper()
	db := pool(t, url)
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range statements {
		if _, err := conn.ExecContext(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	if err := conn.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// query returns the rows of a query as text, values joined by "|", sorted.
func query(t testing.TB, url, text string) []string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	rows, err := pool(t, url).QueryContext(ctx, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for rows.Next() {
		values := make([]sql.NullString, len(columns))
		to := make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			t.Fatal(err)
		}
		parts := make([]string, len(values))
		for i, v := range values {
			if parts[i] = v.String; !v.Valid {
				parts[i] = "NULL"
			}
		}
		out = append(out, strings.Join(parts, "|"))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	slices.Sort(out)
	return out
}

func open(t testing.TB, c Config) *Sink {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// pipelineOf names a pipeline after the database.
func pipelineOf(url string) string { return "p-" + url[strings.LastIndexByte(url, '/')+1:] }

func TestSink(t *testing.T) {
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		sinktest.Run(t, func(t *testing.T) sinktest.Harness {
			url := newDatabase(t, server)
			return sinktest.Harness{
				Pipeline: "shop",
				Open: func(t *testing.T, pipeline string) txnsink.Sink {
					return open(t, Config{URL: url, Pipeline: pipeline})
				},
				Rows: func(t *testing.T, table schema.Name) []string {
					return query(t, url, "SELECT * FROM "+sqlgen.MySQL{}.Quote(table.Table))
				},
			}
		})
	})
}
