package kafka

import (
	"errors"
	"fmt"

	kafkago "github.com/segmentio/kafka-go"

	"replicator/debezium"
)

// The classes of [Error]: what an operator has to deal with.
const (
	OffsetOutOfRange  = "offset_out_of_range" // the log does not hold the wanted offset
	TopicRecreated    = "topic_recreated"     // another topic of the same name
	TopicDeleted      = "topic_deleted"       // a topic that was read is gone
	TopicMissing      = "topic_missing"       // a topic asked for by name does not exist
	PartitionMissing  = "partition_missing"   // the topic has no such partition
	NotTrusted        = "not_trusted"         // the broker's certificate does not show that it is the broker
	NotAuthenticated  = "not_authenticated"   // the broker refuses the user, the password or the way of logging in
	NotAuthorized     = "not_authorized"      // the broker refuses to show the topic
	CorruptBatch      = "corrupt_batch"       // bytes that are no record batch, again and again
	UnsupportedFormat = "unsupported_format"  // message format 0 or 1, or an unknown compression
	GroupConflict     = "group_conflict"      // the group of the pipeline's processes does not take this one
	BrokerTooOld      = "broker_too_old"      // it lacks a request version that is needed here
	MessageTooLarge   = "message_too_large"   // a topic takes no record of this size
)

// Error is a failure that comes again however often the same is tried; everything else that this package returns may pass.
type Error struct {
	Class     string
	Partition debezium.Partition
	Offset    int64 // the offset wanted, or -1
	Start     int64 // with OffsetOutOfRange: the log's first offset and the one after its last
	End       int64
	Detail    string // what happened and what to do
	Err       error  // the cause, or nil
}

// Error says what, where and what to do.
func (e *Error) Error() string {
	where := e.Partition.String()
	switch {
	case e.Partition.Topic == "":
		where = "brokers"
	case e.Partition.ID < 0:
		where = e.Partition.Topic
	}
	if e.Offset >= 0 {
		where = fmt.Sprintf("%s at offset %d", where, e.Offset)
	}
	if e.Err != nil {
		return fmt.Sprintf("kafka: %s: %s: %s: %v", where, e.Class, e.Detail, e.Err)
	}
	return fmt.Sprintf("kafka: %s: %s: %s", where, e.Class, e.Detail)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Permanent is what the pipeline asks before it tries again. It is true for every Error.
func (e *Error) Permanent() bool { return true }

// ErrClosed is what Next returns after Close.
var ErrClosed = errors.New("kafka: the reader is closed")

// code is an error code of the Kafka protocol.
type code int16

// The codes that are handled apart. All others are tried again within the Reader's bounds.
const (
	codeNone                   code = 0
	codeOffsetOutOfRange       code = 1
	codeUnknownTopic           code = 3
	codeTopicAuthorization     code = 29
	codeClusterAuthorization   code = 31
	codeUnsupportedCompression code = 76
	codeUnknownTopicID         code = 100
	codeInconsistentTopicID    code = 103

	codeIllegalGeneration    code = 22
	codeInconsistentProtocol code = 23
	codeInvalidGroup         code = 24
	codeUnknownMember        code = 25
	codeInvalidSession       code = 26
	codeRebalanceInProgress  code = 27
	codeGroupAuthorization   code = 30
	codeMemberIDRequired     code = 79
	codeGroupFull            code = 81
)

func (c code) Error() string { return kafkago.Error(c).Error() }

// refused returns the permanent error that c stands for, or nil if it may pass.
func refused(p debezium.Partition, offset int64, c code) error {
	switch c {
	case codeTopicAuthorization, codeClusterAuthorization:
		return &Error{
			Class: NotAuthorized, Partition: p, Offset: offset, Err: c,
			Detail: "the broker refuses access; allow this user to READ and DESCRIBE the topic",
		}
	case codeUnsupportedCompression:
		return &Error{
			Class: UnsupportedFormat, Partition: p, Offset: offset, Err: c,
			Detail: "the broker cannot send this compression in the fetch version that it speaks; upgrade it, or produce with another compression",
		}
	}
	return nil
}

// outOfRange explains why a log that spans [start, end) does not serve offset.
func outOfRange(p debezium.Partition, offset, start, end int64) *Error {
	e := &Error{Class: OffsetOutOfRange, Partition: p, Offset: offset, Start: start, End: end}
	if offset < start {
		e.Detail = fmt.Sprintf("the log starts at %d (and ends at %d): the records from %d to %d were removed by retention before they were read, and are lost; "+
			"take a new snapshot of the topic's tables, or start with `run --from` a checkpoint whose position the log still holds", start, end, offset, start-1)
	} else {
		e.Detail = fmt.Sprintf("the log ends at %d (and starts at %d): the topic was truncated or created again, and is not the log that the position was made for; "+
			"take a new snapshot of the topic's tables, or start with `run --from` a checkpoint made for this log", end, start)
	}
	return e
}

func recreated(p debezium.Partition, offset int64, was, is string) *Error {
	return &Error{
		Class: TopicRecreated, Partition: p, Offset: offset,
		Detail: fmt.Sprintf("the topic was deleted and created again (its id was %s and is %s), and the position was made for the old one; "+
			"take a new snapshot of the topic's tables, or start with `run --from` a checkpoint made for this topic", was, is),
	}
}

func deleted(p debezium.Partition, offset int64) *Error {
	return &Error{
		Class: TopicDeleted, Partition: p, Offset: offset,
		Detail: "the topic was deleted, or this user may no longer DESCRIBE it; if it is meant to be gone, take it out of source.topics, " +
			"else restore it and take a new snapshot of its tables",
	}
}
