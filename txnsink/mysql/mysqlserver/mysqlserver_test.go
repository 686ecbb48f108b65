package mysqlserver

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
)

func queryText(t *testing.T, s *Server, database, query string) string {
	t.Helper()
	db, err := s.open(database)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var out string
	if err := db.QueryRowContext(t.Context(), query).Scan(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestServerSurvivesKillAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for kind, version := range map[Kind]string{MySQL9: "9.", MySQL8: "8.0.", MariaDB: ""} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s, err := Start(t.Context(), Config{Kind: kind, Settings: map[string]string{"max-connections": "77"}})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.CreateDatabase(t.Context(), "odd `name`"); err != nil {
				t.Fatal(err)
			}
			if got := queryText(t, s, "", "SELECT version()"); !strings.HasPrefix(got, version) || strings.Contains(got, "MariaDB") != (kind == MariaDB) {
				t.Errorf("the server is %s", got)
			}
			for _, end := range []func() error{s.Kill, s.Kill, func() error { return nil }} {
				if err := end(); err != nil {
					t.Fatal(err)
				}
				if err := s.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
				if got := queryText(t, s, "odd `name`", "SELECT concat(database(), @@max_connections)"); got != "odd `name`77" {
					t.Fatalf("got %q", got)
				}
			}
			if err := s.Stop(); err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(s.dir); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("directory after Stop: %v", err)
			}
		})
	}
}

func TestMissingServerSaysWhatToDo(t *testing.T) {
	t.Setenv("REPLICATOR_TEST_MYSQL9", "")
	t.Setenv("LAB_HOME", t.TempDir())
	_, err := Start(t.Context(), Config{Kind: MySQL9})
	if err == nil || !strings.Contains(err.Error(), "install-servers") || !strings.Contains(err.Error(), "REPLICATOR_TEST_MYSQL9") {
		t.Errorf("got %v", err)
	}
}
