package pgserver

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

func queryText(t *testing.T, url, sql string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	}()
	var out string
	if err := conn.QueryRow(t.Context(), sql).Scan(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestServerSurvivesKillAndLeavesNothing(t *testing.T) {
	t.Parallel()
	s, err := Start(t.Context(), Config{MaxPreparedTransactions: 7})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.CreateDatabase(t.Context(), `odd "name"`); err != nil {
		t.Fatal(err)
	}
	for _, restart := range []func() error{s.Kill, s.Kill, func() error { return nil }} {
		if err := restart(); err != nil {
			t.Fatal(err)
		}
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := queryText(t, s.URL(`odd "name"`), "SELECT current_database() || current_setting('max_prepared_transactions')"); got != `odd "name"7` {
			t.Fatalf("got %q", got)
		}
	}
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(s.dir); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("directory after Stop: %v", err)
	}
}
