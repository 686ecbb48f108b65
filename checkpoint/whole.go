package checkpoint

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"replicator/debezium"
)

// BrokenTransactions is what becomes of a source's transaction that does not get whole: its END is missing, or some of its events
// are.
type BrokenTransactions string

// What becomes of one.
const (
	StopAtBroken BrokenTransactions = "stop"  // the pipeline ends with an error that says what is missing
	SplitBroken  BrokenTransactions = "split" // what is there is applied, and the rest when it comes; that is logged and counted
)

// WholeTransactions says how a pipeline keeps the source's transactions whole: a checkpoint holds each of them with all its tables
// and partitions, or not at all, and they come in the order in which the source committed them.
type WholeTransactions struct {
	Topic  string             // Debezium's transaction topic, which has one partition; the Source reads it like a table's
	Wait   time.Duration      // how long one that nothing more comes of may hold up what is after it
	Broken BrokenTransactions // and what becomes of it then
	Memory int64              // bytes of events that wait in memory; what is more waits on disk
	Disk   int64              // bytes of events that wait on disk; when that is full their transaction counts as broken
	Dir    string             // where; empty: the system's directory for temporary files
	// Reads says whether the Source reads a topic: a transaction's events in others are not waited for. nil: it reads all.
	Reads func(topic string) bool
}

func (w *WholeTransactions) check(c *Config) error {
	switch {
	case w.Topic == "":
		return errors.New("source transactions are kept whole by the connector's transaction topic, and none is named")
	case c.Workers != 1:
		return errors.New("source transactions are kept whole by one worker: each has a transaction of the target of its own, and these are committed one after the other")
	case !c.Deduplicate:
		return errors.New("source transactions are kept whole where events that are sent again are dropped: a connector that restarts sends parts of them again")
	case c.Letters != nil:
		return errors.New("source transactions cannot be kept whole where records of them are set aside")
	case w.Wait <= 0 || w.Memory <= 0 || w.Disk < 0:
		return errors.New("the wait for source transactions and the memory for them must be positive")
	case w.Broken != StopAtBroken && w.Broken != SplitBroken:
		return errors.New("broken source transactions must be stopped at, or split")
	}
	return nil
}

// SourceTransactions is told while source transactions are kept whole, at most once a second: what became of them since the run
// began, and what waits.
type SourceTransactions struct {
	Whole    int64 // applied whole
	Split    int64 // applied in parts: they did not get whole, or the target's schema had to be changed within one
	Unended  int64 // of Whole: had no END, and the next one began
	Repeated int64 // sent again, after the connector had restarted
	Without  int64 // rows of no transaction, such as a snapshot's, or of a TRUNCATE

	Waiting string    // the transaction that is waited for, the oldest; empty: none is
	Began   time.Time // when something of it came first
	Since   time.Time // and last
	Behind  int       // how many are known that come after it
	Memory  int64     // bytes that wait in memory
	Disk    int64     // and on disk
}

func (SourceTransactions) observation() {}

// whole is a source's transaction on its way to the router.
type whole struct {
	id    string
	tsMs  int64             // the latest time that the source says of an event
	heads []*debezium.Event // the first of each table and shape
	parts chan *job         // closed after the last
}

// wholes is what the router knows of the source's transactions.
type wholes struct {
	torn atomic.Int64 // how many were not applied whole after all
	over bool         // nothing more is routed: Config.UntilTime is reached
}

// takeWhole routes a source's transaction. No checkpoint is cut before its end: all that the target's schema lacks for it is done
// before its first row.
func (r *router) takeWhole(ctx context.Context, w *whole) error {
	if !r.UntilTime.IsZero() && w.tsMs > r.UntilTime.UnixMilli() {
		r.endHere()
	}
	if !r.wholes.over {
		for _, e := range w.heads {
			if err := r.readyFor(ctx, e); err != nil {
				return locate(err, e)
			}
		}
	}
	first := r.next
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case j, more := <-w.parts:
			if !more {
				clear(r.halves) // both halves of a changed key are of one transaction
				if r.next != first {
					r.wholes.torn.Add(1)
					r.Log.Warn("a source's transaction was applied in two: the target's schema had to be changed within it", "pipeline", r.Pipeline, "transaction", w.id)
				}
				return nil
			}
			r.limit(j)
			if err := r.process(ctx, j); err != nil {
				return err
			}
		}
	}
}

// readyFor makes the table of a row ready that is not routed yet, and nothing before it in its transaction is. Rows of other topics
// are not waited for: they come in their order.
func (r *router) readyFor(ctx context.Context, e *debezium.Event) error {
	if r.tables.skips(e) || r.tables.ready(e) {
		return nil
	}
	n, err := r.tables.need(ctx, e)
	if err != nil {
		return err
	}
	if !n.none() {
		if err := r.quiesce(ctx); err != nil {
			return err
		}
		if err := r.tables.bring(ctx, n, e); err != nil {
			return err
		}
	}
	before := r.tables.entry(tableOf(e)).target
	err = r.tables.make(ctx, e)
	r.progress.DDL = r.tables.ddl
	if err != nil {
		return err
	}
	if taken := r.tables.take(tableOf(e)); taken || before != nil && r.tables.entry(tableOf(e)).target != before {
		return r.sendItems(ctx, make([][]item, len(r.lanes)), true) // rows so far were folded for the former shape or name
	}
	return nil
}

// endHere ends the run at the present positions.
func (r *router) endHere() {
	r.wholes.over = true
	for p, at := range r.positions {
		end := at.Offset + r.lags[p]
		r.end(p, at.Offset)
		r.seen(p, end)
	}
}
