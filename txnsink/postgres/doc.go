// Package postgres is the sink on PostgreSQL 12 and later: transactions that are prepared by PREPARE TRANSACTION and
// decided by COMMIT PREPARED or ROLLBACK PREPARED, on whatever connection.
//
// # Sessions
//
// Each worker has a session for its transactions, opened by the first Begin of an epoch and kept. Everything else (the second phase,
// the fence, the catalog, DDL) uses a few sessions that never wait for a worker's rows: a commit that waited behind
// the next transaction's apply, which waits for the rows that this commit releases, would wait for ever, and
// PostgreSQL sees no deadlock with a prepared transaction.
//
// A worker's session is called replicator:<pipeline>:<epoch>:<worker>, so that a later epoch's fence can end it and leave those
// of its own and later epochs alone. The others are called replicator:<pipeline> and are never ended.
//
// # Answers
//
// PREPARE TRANSACTION in a failed transaction, and COMMIT in one, succeed with the command tag ROLLBACK. So the tag of
// every statement that decides something is compared. "Unknown transaction" (42704) never means "committed": the
// witness says so, or the answer is txnsink.ErrLost.
//
// # Witness
//
// The row (pipeline, worker) of replicator.witness moves from the worker's previous checkpoint, which [txnsink.Workers] knows, to the
// transaction's own.
//
// # Triggers
//
// Sessions set session_replication_role to replica where the role may: foreign keys were checked by the source, and a user's trigger must
// not fire again for a change that it caused there (one that calls pg_notify would make PREPARE fail).
// Deferrable unique constraints are not checked then either.
package postgres
