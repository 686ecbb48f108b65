package debezium

import (
	"fmt"
	"time"
)

// Partition names one Kafka partition.
type Partition struct {
	Topic string
	ID    int32
}

func (p Partition) String() string { return fmt.Sprintf("%s[%d]", p.Topic, p.ID) }

// Record is one Kafka record. A nil Key or Value is Kafka's null (a tombstone's value), an empty one is not nil.
// Key, Value and Headers point into the fetch response's buffer and must not be written to.
type Record struct {
	Partition Partition
	Offset    int64
	Time      time.Time
	Key       []byte
	Value     []byte
	Headers   []Header
}

// Header is one Kafka record header.
type Header struct {
	Key   string
	Value []byte
}

// Batch is what one fetch brought from one partition: committed records in offset order, and how far the fetch went.
// Offsets need not be contiguous (compaction, aborted transactions, control records), and a Batch without Records is
// progress all the same.
type Batch struct {
	Partition Partition
	Records   []Record
	Next      int64  // the next offset to fetch after this batch
	End       int64  // the partition's last stable offset when the batch was fetched; caught up when Next >= End
	Bytes     int    // size of Records' keys, values and headers
	TopicID   string // the topic's id, as in Position
}

// Position is how far one partition was read.
type Position struct {
	Offset  int64  `json:"offset"`             // the NEXT offset to fetch
	TopicID string `json:"topic_id,omitempty"` // Kafka's topic id (a UUID in hex) when it was first read; a change means that the topic was re-created
}

// Positions is how far every partition was read. It is what a checkpoint saves.
type Positions map[Partition]Position

// Clone returns a copy that shares nothing with p.
func (p Positions) Clone() Positions {
	out := make(Positions, len(p))
	for k, v := range p {
		out[k] = v
	}
	return out
}
