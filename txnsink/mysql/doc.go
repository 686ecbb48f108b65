// Package mysql is the sink on MySQL 8.0.19 and later and on MariaDB 10.11 and later: XA transactions that are prepared by
// XA PREPARE and decided by XA COMMIT or XA ROLLBACK, on whatever connection.
//
// # Sessions
//
// Each worker has a session for its transactions, opened by the first Begin. Where a session is free after XA PREPARE (MySQL
// 8.0.29 and later with xa_detach_on_prepare) it is used again at once. Elsewhere it can do nothing but decide what it has
// prepared, and no other session can: so it is kept and decides it, while the worker's next transaction has another session.
// Everything else (the second phase of other processes' transactions, the fence, the catalog, DDL) uses sessions that
// never wait for a worker's rows.
//
// A worker's session holds a lock of GET_LOCK that is called after the database, the pipeline and the worker: a later epoch's
// fence finds the session by it and kills it. A user may kill its own sessions.
//
// # Answers
//
// XAER_NOTA (1397) is the answer for what is unknown, for what was decided, and on MariaDB for what another session still holds,
// although XA RECOVER lists it. So a transaction that is listed is tried again, and one that is not was committed if
// the witness says so; else the answer is txnsink.ErrLost. The witness is then read with a lock, because a transaction
// leaves the list a moment before its rows can be seen.
//
// A statement's error leaves an XA transaction usable without that statement, and it could be prepared. So the first error ends
// it: only Abort may follow, which rolls back and closes the session.
//
// # New rows
//
// They are loaded by LOAD DATA LOCAL where the server has local_infile on (load.go). It costs the server half of an INSERT and judges nothing:
// what it skips or bends becomes a warning. So it stands only without one, and else an INSERT judges.
//
// # Names
//
// A transaction is called replicator:<pipeline> (gtrid) and :<epoch>:<checkpoint>:<worker>@<database> (bqual), each within 64
// bytes, which XA RECOVER shows as one text. The database is there as a hash: names are the whole server's, and whoever
// knows one may decide it.
//
// # Witness
//
// The row (pipeline, worker) of replicator_witness moves from the worker's previous checkpoint, which [txnsink.Workers] knows, to the
// transaction's own. It also keeps a transaction from being empty: one that changes nothing is prepared and listed, and gone after a
// crash.
package mysql
