package storetest

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/txnsink"
)

// MissingTablesSayWhatToDo tries a store on a database without the own tables.
func MissingTablesSayWhatToDo(t *testing.T, s checkpoint.Store) {
	t.Helper()
	_, err := s.Acquire(t.Context(), pipeline)
	if err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "migrate up") {
		t.Errorf("got %v", err)
	}
}

// Server is a database server of the test's own.
type Server interface {
	Kill() error
	Restart(ctx context.Context) error
}

// SavedCheckpointSurvivesKill kills the server of a store just after a save.
func SavedCheckpointSurvivesKill(t *testing.T, s checkpoint.Store, server Server) {
	t.Helper()
	epoch := acquire(t, s, pipeline).Epoch
	want := checkpoint.Checkpoint{Pipeline: pipeline, Epoch: epoch, ID: 1, Created: time.Unix(1, 0).UTC(), Positions: debezium.Positions{}}
	save(t, s, want, 5)
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.List(t.Context(), pipeline); err == nil {
		t.Fatal("a killed server answered")
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, s, pipeline); !reflect.DeepEqual(got, []checkpoint.Checkpoint{want}) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
