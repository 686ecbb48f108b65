package postgres

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"replicator/checkpoint"
	"replicator/checkpoint/storetest"
	sink "replicator/txnsink/postgres"
	"replicator/txnsink/postgres/pgserver"
)

var server *pgserver.Server

func TestMain(m *testing.M) {
	var err error
	if server, err = pgserver.Start(context.Background(), pgserver.Config{}); err != nil {
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

// database returns the URL of a new one, with the own tables.
func database(t *testing.T) string {
	t.Helper()
	name := fmt.Sprintf("t%d", databases.Add(1))
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := sink.Up(t.Context(), server.URL(name)); err != nil {
		t.Fatal(err)
	}
	return server.URL(name)
}

func open(t *testing.T, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), url)
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

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) storetest.Open {
		url := database(t)
		return func(t *testing.T) checkpoint.Store { return open(t, url) }
	})
}

func TestLog(t *testing.T) {
	t.Parallel()
	storetest.RunLog(t, func(t *testing.T) storetest.OpenLog {
		url := database(t)
		return func(t *testing.T) storetest.Log { return open(t, url) }
	})
}

func TestMissingTablesSayWhatToDo(t *testing.T) {
	t.Parallel()
	if err := server.CreateDatabase(t.Context(), "bare"); err != nil {
		t.Fatal(err)
	}
	storetest.MissingTablesSayWhatToDo(t, open(t, server.URL("bare")))
}

func TestErrorsHoldNoPassword(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:sesame@127.0.0.1:1/d?sslmode=disable", "postgres://u:sesame@127.0.0.1:x/d"} {
		if _, err := Open(t.Context(), url); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("got %v", err)
		}
	}
}

// A server of its own: the others' must not be killed.
func TestSavedCheckpointSurvivesKill(t *testing.T) {
	t.Parallel()
	own, err := pgserver.Start(t.Context(), pgserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := own.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := sink.Up(t.Context(), own.URL("postgres")); err != nil {
		t.Fatal(err)
	}
	storetest.SavedCheckpointSurvivesKill(t, open(t, own.URL("postgres")), own)
}
