package mysql

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"replicator/checkpoint"
	"replicator/checkpoint/storetest"
	"replicator/debezium"
	"replicator/txnsink"
	sink "replicator/txnsink/mysql"
	"replicator/txnsink/mysql/mysqlserver"
)

// onEach runs a test on a server of each kind. A server's subtests share it.
func onEach(t *testing.T, test func(t *testing.T, server *mysqlserver.Server)) {
	t.Helper()
	t.Parallel()
	for _, kind := range mysqlserver.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			server, err := mysqlserver.Start(t.Context(), mysqlserver.Config{Kind: kind})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := server.Stop(); err != nil {
					t.Error(err)
				}
			})
			test(t, server)
		})
	}
}

var databases atomic.Int64

// database returns the URL of a new one, with the own tables.
func database(t *testing.T, server *mysqlserver.Server) string {
	t.Helper()
	name := fmt.Sprintf("t%d", databases.Add(1))
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if err := sink.Up(t.Context(), server.URL(name), nil); err != nil {
		t.Fatal(err)
	}
	return server.URL(name)
}

func open(t *testing.T, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), url, nil)
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
	onEach(t, func(t *testing.T, server *mysqlserver.Server) {
		t.Run("Contract", func(t *testing.T) {
			storetest.Run(t, func(t *testing.T) storetest.Open {
				url := database(t, server)
				return func(t *testing.T) checkpoint.Store { return open(t, url) }
			})
		})
		t.Run("MissingTablesSayWhatToDo", func(t *testing.T) {
			if err := server.CreateDatabase(t.Context(), "bare"); err != nil {
				t.Fatal(err)
			}
			_, err := open(t, server.URL("bare")).Acquire(t.Context(), "p")
			if err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "migrate up") {
				t.Errorf("got %v", err)
			}
		})
		t.Run("SavedCheckpointSurvivesKill", func(t *testing.T) { survivesKill(t, server) })
	})
}

// survivesKill is the last test on its server.
func survivesKill(t *testing.T, server *mysqlserver.Server) {
	s := open(t, database(t, server))
	c, err := s.Acquire(t.Context(), "p")
	if err != nil {
		t.Fatal(err)
	}
	want := checkpoint.Checkpoint{Pipeline: "p", Epoch: c.Epoch, ID: 1, Created: time.Unix(1, 0).UTC(), Positions: debezium.Positions{}}
	if err := s.Save(t.Context(), want, 5); err != nil {
		t.Fatal(err)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(t.Context(), "p"); err == nil {
		t.Fatal("a killed server answered")
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	got, err := s.List(t.Context(), "p")
	if err != nil || !reflect.DeepEqual(got, []checkpoint.Checkpoint{want}) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestErrorsHoldNoPassword(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	for _, url := range []string{"mysql://u:sesame@127.0.0.1:1/d", "mysql://u:sesame@127.0.0.1:x/d"} {
		if _, err := Open(ctx, url, nil); err == nil || strings.Contains(err.Error(), "sesame") {
			t.Errorf("got %v", err)
		}
	}
}
