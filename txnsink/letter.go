package txnsink

import "time"

// Letter is a record that was set aside: as Kafka had it, and why. What its texts mean is said in package checkpoint.
type Letter struct {
	Topic     string
	Partition int32
	Offset    int64
	Source    string // the source's table; empty: the record does not tell
	RowKey    string // of the row that it changes, among those of its topic; empty: it has no key
	Class     string
	Cause     string
	Key       []byte // nil: Kafka's null
	Value     []byte // nil: Kafka's null
	Headers   string // JSON
	Time      time.Time
	Action    string // what an operator has decided: "retry", "drop", or nothing yet
	Created   time.Time
}

// LetterKey is what the letters of one row have in common.
type LetterKey struct{ Topic, RowKey string }
