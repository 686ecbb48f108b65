// Package demo does the replicator's whole job on one machine, and shows that it was done exactly once.
//
// It starts a private PostgreSQL server and a Kafka broker within this process, writes a stream to the broker that
// Debezium recorded from a real MySQL (the snapshot and the changes of 15 tables with all types, several copies of it,
// each with a database and topics of its own), and runs the replicator as a child process meanwhile. The child is
// killed with SIGKILL again and again: at random moments, and when the target lists one of its transactions as
// prepared. A kill counts as one between prepare and commit only if the dead process's transaction is still listed
// afterwards. At the end every row of the target is compared with what MySQL itself held.
//
// The comparison shares nothing with the replicator: it reads the target by a connection of its own, as text, and knows
// how MySQL's client and PostgreSQL print a value.
package demo
