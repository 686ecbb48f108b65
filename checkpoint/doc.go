// Package checkpoint is the pipeline: it reads, routes, applies, and decides.
//
// A checkpoint is a set of Kafka positions and the fate of the transactions that hold everything up to them. [Run] cuts
// one again and again by a barrier that passes from the router through every lane, and completes it in the order
// that the delivery asks for:
//
//	two-phase      prepare, save, commit what was prepared
//	one-phase      commit with the positions, save
//	write-ahead    write to the log, save, apply from the log
//	at-least-once  commit, save
//	at-most-once   save, commit
//
// Start, failure, lost connection and recovery are one path (see recover in recover.go), and there is one retry loop.
//
// # Crash table (two-phase)
//
//	crash after            target holds           last checkpoint  recovery
//	apply                  nothing                n                replay from n
//	some prepared          prepared, invisible    n                abort them, replay from n
//	prepared, save unknown prepared, invisible    n or n+1         n: abort, replay; n+1: commit
//	saved, some committed  part visible           n+1              commit all
//	table created          an empty table         n                found in the catalog, used
//	schema changed         the new shape          n                the change is noted with it; earlier rows are mapped to it
//
// # Crash table (one-phase)
//
// Each lane's transaction carries the positions that it leads to, as its witness's note. Nothing is ever in doubt.
//
//	crash after            target holds           last checkpoint  recovery
//	apply                  nothing                n                replay from n
//	some committed         part visible           n                replay from n; lanes that noted n+1 drop what they have
//	all committed          visible                n or n+1         n: replay from n, every lane drops it; n+1: go on
//
// # Crash table (write-ahead)
//
// The lanes write their statements to the log, durably, and touch the target only when the checkpoint that lists them is
// saved. The witness's note names the transaction of the log that was applied.
//
//	crash after            target holds           last checkpoint  recovery
//	some logged            nothing                n                replay from n; the log's rest is pruned
//	logged, save unknown   nothing                n or n+1         n: as above; n+1: apply the log
//	saved, some applied    part visible           n+1              apply what no witness names
//	applied, not pruned    visible                n+1              prune
//
// # Invariants
//
// The code cites them by number.
//
//  1. A position in a checkpoint is the next offset to fetch. Every event before it was handed to a lane before the
//     barrier, every event from it on comes after: one goroutine, the router, sends both events and barriers.
//  2. A saved checkpoint is a decision. Its transactions are committed, whoever must do it and however often; every
//     other prepared transaction of the pipeline with an older epoch is aborted.
//  3. Save comes after every PreCommit of the checkpoint and before any Commit of it.
//  4. At most one checkpoint is outstanding: barrier n+1 passes only after n is committed.
//  5. On a failure nothing that may be prepared is rolled back here: the save may have happened. Only recovery, which
//     knows the last checkpoint, decides.
//  6. Nothing is applied before the store has given this process a new epoch, what is in doubt was decided, and the sink was fenced
//     with that epoch.
//  7. Checkpoint numbers grow over all epochs, also when an older one is replayed.
//  8. "Unknown transaction" never means "committed": the sink's witness says so or the pipeline stops with ErrLost.
//  9. What was seen by the sources' own positions is cut, saved and taken up again together with the Kafka positions. One
//     from another cut would drop events that were never applied, or apply some twice.
//  10. In one-phase delivery an event is dropped only if a note says that its lane, of as many lanes as there were then, is
//     committed beyond it. Notes beyond the last checkpoint are saved with the next one before any commit overwrites them,
//     and are carried on until its positions have passed them.
//  11. A table's schema is changed only while no transaction is open or in doubt: everything before the change is committed
//     in a checkpoint, and nothing after it was applied. What the target has been brought to is noted in the target itself.
//  12. A row goes to the target's table by the lineage of its columns: from the version at the row's own position to the one
//     that the target has. A row of a table that was emptied or dropped since goes nowhere.
//  13. Rows under a table's former name come before those under its new one, whichever topic is read first.
//  14. A lane begins to apply a checkpoint when the one before is committed in every lane. A row that is prepared and not yet
//     committed is not seen by statements: a delete or an update of it would find nothing, and wait for nothing.
//  15. Between two barriers the rows that depend on each other are on one lane (placement.go).
//  16. A record that is set aside is a row of the table of letters, written by the lane of the record's own table. While a row has
//     letters its later records become letters too; it ceases to have them only while nothing is in flight.
//  17. A batch of rows is routed when the schema-change topic was read as far as it was when the batch had come. A change is written
//     before the rows that follow it, and not every row shows by its columns that it follows one.
//  18. Where source transactions are kept whole, no checkpoint is cut within one, and positions do not count what waits for the rest of
//     its transaction (assemble.go, whole.go).
//
// # Several processes
//
// [RunCluster] has processes share a pipeline. Its slots are pipelines by all that is said above, each with an epoch of its own, and the
// partitions of a slot are in no other. A Kafka consumer group says which process runs which slot; docs/adr/0020-cluster.md has what
// holds when it is wrong.
//
// # Schema changes
//
// Debezium writes them to a topic of its own, which is ordered with the topics of rows by the source's position only. Each table
// has a chain of versions (history.go): what it was, what its columns were called then, whether its rows were thrown away. The
// router compares a row's position with the version that the target has. If the row is of a later one, it completes a
// checkpoint, brings the target there, and goes on (follow.go, evolve.go); if of an earlier one, as in a replay, the row is
// mapped. A change that no row follows is applied when all that was written before it was read. Where there is no such topic
// the rows' own schema is the witness: it shows columns that are new and types that are wider, and nothing else for sure.
package checkpoint
