package postgres

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
	"replicator/txnsink/postgres/pgserver"
	"replicator/txnsink/sinktest"
)

var server *pgserver.Server

func TestMain(m *testing.M) {
	flag.Parse()
	if flag.Lookup("test.fuzz").Value.String() != "" {
		os.Exit(m.Run()) // fuzz targets need no server, and their workers would each start one
	}
	var err error
	if server, err = pgserver.Start(context.Background(), pgserver.Config{MaxPreparedTransactions: 100}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

var databases atomic.Int64

// database returns the URL of a new database with the own tables. No two tests share a pipeline's name either: the names of
// prepared transactions are the whole server's.
func newDatabase(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("t%d", databases.Add(1))
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := Up(t.Context(), server.URL(name)); err != nil {
		t.Fatal(err)
	}
	return server.URL(name)
}

// query returns the rows of a query as text, values joined by "|".
func query(t *testing.T, url, sql string) []string {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	c, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	defer closeConn(c)
	results, err := c.PgConn().Exec(ctx, sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var out []string
	for _, row := range results[len(results)-1].Rows {
		values := make([]string, len(row))
		for i, v := range row {
			if values[i] = string(v); v == nil {
				values[i] = "NULL"
			}
		}
		out = append(out, strings.Join(values, "|"))
	}
	slices.Sort(out)
	return out
}

func open(t *testing.T, c Config) *Sink {
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

func harness(t *testing.T) sinktest.Harness { return harnessOn(newDatabase(t)) }

func harnessOn(url string) sinktest.Harness {
	name := url[strings.LastIndexByte(url, '/')+1 : strings.IndexByte(url, '?')]
	return sinktest.Harness{
		Pipeline: "shop-" + name,
		Open: func(t *testing.T, pipeline string) txnsink.Sink {
			return open(t, Config{URL: url, Pipeline: pipeline})
		},
		Rows: func(t *testing.T, table schema.Name) []string {
			return query(t, url, "SELECT * FROM "+sqlgen.Postgres{}.Quote(table.Table))
		},
	}
}

func TestSink(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, harness)
}

// TestSinkOnPostgreSQL18 runs the suite on another release than the machine's.
func TestSinkOnPostgreSQL18(t *testing.T) {
	t.Parallel()
	other, err := pgserver.Start(t.Context(), pgserver.Config{Release: "18.3.0", MaxPreparedTransactions: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := other.Stop(); err != nil {
			t.Error(err)
		}
	})
	t.Run("suite", func(t *testing.T) {
		sinktest.Run(t, func(t *testing.T) sinktest.Harness {
			name := fmt.Sprintf("t%d", databases.Add(1))
			if err := other.CreateDatabase(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			if err := Up(t.Context(), other.URL(name)); err != nil {
				t.Fatal(err)
			}
			return harnessOn(other.URL(name))
		})
	})
}
