package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"time"

	"replicator/sqlgen"
	"replicator/txnsink"
)

// Bounds of the retry loop. A run that saved a checkpoint starts again from the first delay.
const (
	firstBackoff = 100 * time.Millisecond
	lastBackoff  = 10 * time.Second
)

// Run replicates until ctx is done, and then cuts a last checkpoint and returns nil. Where there is nothing to cut, because ctx ends
// during recovery or the wait for another start, it returns nil too. Otherwise it returns nil when UntilCaughtUp is reached, or an
// error that trying again would bring again (see [txnsink.Permanent]). Every other failure is logged and followed by a new start.
func Run(ctx context.Context, c Config) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("pipeline %s: %w", c.Pipeline, err)
	}
	delay := firstBackoff
	widen, refused, gather := widening{}, refusals{}, false
	for {
		if c.begin != nil && !c.begin(ctx) {
			return nil // stopped between two runs
		}
		r := &run{Config: c, stop: ctx.Done(), widen: widen, refused: refused, gather: gather}
		refused.begin()
		err := r.once(ctx)
		gather = !r.settled && dependent(err) && (!gather || r.progressed)
		if last, result := r.isLast(ctx, err, gather); last {
			return result
		}
		if r.decided {
			c.From = 0 // the replay was begun by a checkpoint of its own
		}
		if r.progressed {
			delay = firstBackoff
		}
		if !c.pause(ctx, err, delay) {
			return nil
		}
		delay = min(2*delay, lastBackoff)
	}
}

// isLast says whether no run follows the one that ended with err, and what Run returns then. gather says that the next one would take
// together what this one cut apart.
func (r *run) isLast(ctx context.Context, err error, gather bool) (bool, error) {
	if err == nil {
		return true, nil
	}
	passes := r.settled || gather
	if !passes {
		var tooMany error
		if passes, tooMany = r.refused.add(r.Letters, err); tooMany != nil {
			return true, tooMany
		}
	}
	if txnsink.Permanent(err) && !passes {
		return true, err
	}
	if ctx.Err() != nil && r.running {
		return true, fmt.Errorf("stopped without a last checkpoint; the next start goes on from the one before: %w", err)
	}
	return false, nil
}

// pause tells of a failure and waits before another start. It reports false if ctx ends first.
func (c *Config) pause(ctx context.Context, failure error, delay time.Duration) bool {
	if ctx.Err() == nil {
		c.Failed(failure)
		c.Log.Warn("starting again after a failure", "pipeline", c.Pipeline, "error", failure, "in", delay)
	}
	select {
	case <-ctx.Done():
		c.Log.Info("stopped while there was nothing to cut a checkpoint of: the next start goes on from the last one", "pipeline", c.Pipeline)
		return false
	case <-time.After(delay):
		return true
	}
}

// run is one life of the pipeline, from recovery to its end by stop, success or failure.
type run struct {
	Config
	stop <-chan struct{}

	widen   widening // outlives the run
	refused refusals // outlive it too
	settled bool     // the row that ended the run may pass in the next one
	gather  bool     // the first checkpoint takes in all that it can: the run before cut rows apart that depend on each other

	founding bool // this run gives the pipeline to a cluster

	last       Checkpoint // the last saved checkpoint; Epoch is this run's
	committed  int        // by recovery, of what was in doubt
	rolledBack int        // likewise
	decided    bool       // last was saved by this run's recovery or later
	running    bool       // recovery is done
	progressed bool       // a checkpoint after recovery was completed
}

// errDone ends a run's goroutines when there is nothing more to do.
var errDone = errors.New("done")

// dependent says whether a row was refused for another one, which may have been in another batch or checkpoint: rows that trade a
// unique value, or a child that was read before its parent.
func dependent(err error) bool {
	var row *sqlgen.RowError
	return errors.As(err, &row) && (row.Class == sqlgen.UniqueViolation || row.Class == sqlgen.ForeignKey)
}
