// Package kafka reads Debezium's topics from Kafka, each committed record exactly once and in order.
//
// A [Source] is a description of what to read; it holds no connection. [Source.Open] begins one run of reading at
// given positions and returns its [Reader], which hands out [debezium.Batch]es until it is closed or fails.
//
// # Connections from kafka-go, data path of our own
//
// Connections, TLS, SASL and broker addresses are kafka-go's Transport. The requests that decide what is read (Metadata,
// ListOffsets, Fetch) are encoded and decoded here and sent through the Transport by its RawExchanger hook, for what a
// change stream needs and a general consumer does not promise:
//
//   - Records of aborted Kafka transactions and control records are never delivered, and yet move the position.
//   - A position is the next offset to fetch. It comes from whole batches, never from the last record seen, so compacted
//     and empty batches, aborted tails and gaps between batches cannot make it stand still. (Only a log whose very last
//     batches are gone altogether, which Kafka's cleaner avoids, has an end that no batch leads to; the position then waits
//     before it and goes on with the next batch. It is not moved there: an answer without a batch proves nothing.)
//   - An offset that the log does not hold is a permanent [Error], never a jump.
//   - A topic that was deleted and created again is not the topic that was read: fetches name topics by id where the broker
//     can (Fetch version 13, Kafka 3.1), and ids are compared whenever metadata is read.
//   - A null and an empty value differ.
//
// # Goroutines
//
// A Reader has one goroutine that keeps up with metadata (leaders, new topics and partitions) and one for each broker, which
// fetches all partitions that the broker leads in one request. Batches go to a queue bounded in bytes. A partition
// whose share of the queue is full is left out of the fetches until some of it was taken; the others go on.
//
// Formats are those of the Kafka protocol guide (kafka.apache.org/protocol), record batches those of KIP-98, their
// compression KIP-110 for zstd, topic ids KIP-516.
package kafka
