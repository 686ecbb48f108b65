package checkpoint

import (
	"context"
	"time"

	"replicator/debezium"
	"replicator/txnsink"
)

// Checkpoint is a decision: everything before Positions is applied exactly by the transactions up to Txns, these are
// committed, and every other transaction of the pipeline is aborted.
type Checkpoint struct {
	Pipeline  string
	Epoch     int64
	ID        int64 // 0: none was saved yet; numbers grow over all epochs
	Positions debezium.Positions
	Txns      []txnsink.ID // empty in modes that have nothing left to commit when a checkpoint is saved
	Parts     []int        // write-ahead: how many parts of the log each of Txns has; otherwise nil: they are prepared
	Ahead     []Ahead      // one-phase: the lanes that were further than Positions when the pipeline was recovered
	Rows      int64        // rows applied since the checkpoint before
	Created   time.Time
	Savepoint bool      // pruning keeps it
	Seen      []Seen    // what was applied by the sources' own positions, to recognise what is sent again
	Founding  *Founding // the pipeline was given to a cluster with this checkpoint; nil: it was not
}

// Store keeps checkpoints. It is safe for concurrent use. Every Store passes storetest.Run.
type Store interface {
	// Acquire begins a new epoch of the pipeline and returns its last checkpoint with Epoch set to the new epoch
	// (an empty one with ID 0 when there is none). From then on earlier epochs can save nothing.
	Acquire(ctx context.Context, pipeline string) (Checkpoint, error)
	// Save keeps c, atomically and durably, and prunes all but the last retain checkpoints that are no savepoints.
	// If c.Epoch is not the pipeline's latest: txnsink.ErrFenced, and nothing is saved.
	// After any other error it is not known whether c was saved; the next Acquire tells.
	Save(ctx context.Context, c Checkpoint, retain int) error
	// List returns the saved checkpoints, oldest first.
	List(ctx context.Context, pipeline string) ([]Checkpoint, error)
	// Load returns one checkpoint, or ErrNotFound.
	Load(ctx context.Context, pipeline string, id int64) (Checkpoint, error)
	// Forget removes one checkpoint, also a savepoint, but never the last: that is an error. One that is not there: ErrNotFound.
	Forget(ctx context.Context, pipeline string, id int64) error
	Close() error
}

// Source is the log that is read.
type Source interface {
	// Open begins to read after from. A partition that from does not name is read by the source's start policy if
	// from is nil (a first start), and from its beginning otherwise: it is new.
	Open(ctx context.Context, from debezium.Positions) (Reader, error)
	// History reads a topic with one partition, from the offset from (-1: its beginning) to its present end, and returns its
	// records and the next offset.
	History(ctx context.Context, topic string, from int64) ([]debezium.Record, int64, error)
}

// Reader is one run of reading. Next is called by one goroutine; Close may be called by another.
type Reader interface {
	// Start is where each partition known at Open is read from, and End its last stable offset at that time.
	Start() debezium.Positions
	End() map[debezium.Partition]int64
	// Next returns the next batch of any partition, in offset order within each, and waits for one.
	// A position that the log no longer holds, or a topic that is not the one that the position was made for, is an
	// error for which txnsink.Permanent is true.
	Next(ctx context.Context) (debezium.Batch, error)
	// Hold makes Next pass a partition over, or ends that. It is called while another goroutine is in Next.
	Hold(p debezium.Partition, hold bool)
	// Ends is each known partition's last stable offset as it is now.
	Ends(ctx context.Context) (map[debezium.Partition]int64, error)
	// EndOf is the same of the only partition of a topic that is not read.
	EndOf(ctx context.Context, topic string) (int64, error)
	Close() error
}
