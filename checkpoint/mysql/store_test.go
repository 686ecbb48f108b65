package mysql

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"replicator/checkpoint"
	"replicator/checkpoint/storetest"
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
		t.Run("Log", func(t *testing.T) {
			storetest.RunLog(t, func(t *testing.T) storetest.OpenLog {
				url := database(t, server)
				return func(t *testing.T) storetest.Log { return open(t, url) }
			})
		})
		t.Run("LongPartIsKeptInPieces", func(t *testing.T) { longPart(t, server) })
		t.Run("MissingTablesSayWhatToDo", func(t *testing.T) {
			if err := server.CreateDatabase(t.Context(), "bare"); err != nil {
				t.Fatal(err)
			}
			storetest.MissingTablesSayWhatToDo(t, open(t, server.URL("bare")))
		})
		t.Run("SavedCheckpointSurvivesKill", func(t *testing.T) { // the last test on its server
			storetest.SavedCheckpointSurvivesKill(t, open(t, database(t, server)), server)
		})
	})
}

// longPart is longer than max_allowed_packet of MariaDB, and no text.
func longPart(t *testing.T, server *mysqlserver.Server) {
	url := database(t, server)
	s := open(t, url)
	body := make([]byte, 17<<20)
	for i := range body {
		body[i] = byte(i * 7)
	}
	id := txnsink.ID{Pipeline: "p", Epoch: 1, Checkpoint: 2, Worker: 3}
	if err := s.Append(t.Context(), id, 0, body); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Read(t.Context(), id, 0); err != nil || !bytes.Equal(got, body) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
	if _, err := s.db.ExecContext(t.Context(), "DELETE FROM replicator_log WHERE piece = 5"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), id, 0); err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "part 0 of transaction p:1:2:3") {
		t.Errorf("a damaged part: %v", err)
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
