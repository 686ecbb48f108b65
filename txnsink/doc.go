// Package txnsink is transactions on a target database whose fate is decided by someone else.
//
// The verbs are those of Flink's two-phase commit sink: begin, apply, pre-commit, commit, abort, and recover, which is
// [Sink.Pending] with [Sink.Commit] and [Sink.Abort]. A pre-committed transaction is durable, invisible, and known by
// its [ID] alone: it outlives its session and its process, so the process that commits it need not be the one that prepared it.
//
// # Witness
//
// Every transaction ends with its witness: its last statement before it is prepared (or committed) moves the row
// (pipeline, worker) of the sink's own table from the worker's previous checkpoint to this one, within the epoch, and must
// change exactly one row. So a fenced process's transaction fails instead of being prepared; a commit whose answer was
// lost can be looked up; no transaction is empty; and a new epoch cannot begin while an old transaction is in doubt,
// because [Sink.Fence] needs the row that it holds.
//
// A transaction that is committed in one step can leave a note in its witness. What must be known exactly when the
// data is visible, such as the positions in the source's log, is said there without a second phase.
//
// # Errors
//
// A *[sqlgen.RowError] is data that will not pass. [ErrFenced] and [ErrLost] end the pipeline, as does an error for
// which [Permanent] is true; everything else may pass by starting again.
package txnsink
