// Package e2e runs the replicator against the real thing: MySQL, Debezium in Kafka Connect, a Kafka broker and PostgreSQL,
// each of which is killed on the way, and compares what arrived with what the source holds.
//
// The comparison must not agree with a mistake of the decoder. It therefore shares no code with the rest of the module and
// takes other ways to the values: what MySQL's own client prints on one side, what PostgreSQL prints on the other, and for
// each type of MySQL's a text that both must come to. This file's neighbours without a build tag are that comparison and its
// tests; the runs themselves are behind the build tag e2e, and `e2e/run` prepares the stack that they need.
package e2e
