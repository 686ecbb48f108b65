package checkpoint_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/txnsink"
)

// TestStopEndsRecovery: a source that does not open does not hold a stop up, and nothing is lost by it.
func TestStopEndsRecovery(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := w.start(ctx, checkpoint.TwoPhase, fault{}, func(c *checkpoint.Config) { c.Source = silentSource{c.Source} })
		if took := time.Since(began); err != nil || took > 2*time.Minute {
			t.Errorf("Run = %v after %v", err, took)
		}
		if _, err := w.start(t.Context(), checkpoint.TwoPhase, fault{}); err != nil {
			t.Fatal(err)
		}
		w.exactly(t, "after the next start")
	})
}

// TestStopWithoutALastCheckpointIsAFailure: the target went away while the last checkpoint was cut.
func TestStopWithoutALastCheckpointIsAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := w.start(ctx, checkpoint.TwoPhase, fault{}, func(c *checkpoint.Config) {
			c.UntilCaughtUp, c.Rows = false, 1
			c.Sink = &stoppedSink{c.Sink, cancel}
		})
		if err == nil || !strings.Contains(err.Error(), "stopped without a last checkpoint") {
			t.Errorf("Run = %v", err)
		}
	})
}

// stoppedSink is a target that goes away with the stop.
type stoppedSink struct {
	txnsink.Sink
	stop func()
}

func (s *stoppedSink) Begin(context.Context, txnsink.ID) (txnsink.Txn, error) {
	s.stop()
	return nil, errors.New("the target went away")
}

// silentSource is a source whose brokers do not answer.
type silentSource struct{ checkpoint.Source }

func (silentSource) Open(ctx context.Context, _ debezium.Positions) (checkpoint.Reader, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
