package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	kafkago "github.com/segmentio/kafka-go"

	"replicator/debezium"
)

const (
	writeAttempts = 3
	writeLinger   = 10 * time.Millisecond
	maxWrite      = 64 << 20 // bytes of a request: the topic's own limit is the broker's to tell
)

// Writer appends records to one topic. It is safe for concurrent use.
type Writer struct {
	topic     string
	writer    *kafkago.Writer
	transport *kafkago.Transport
}

// Writer returns a Writer to a topic of the source's brokers, which must be there. It connects to nothing yet.
func (s *Source) Writer(topic string) *Writer {
	t := s.transport()
	t.MetadataTopics = []string{topic}
	return &Writer{topic: topic, transport: t, writer: &kafkago.Writer{
		Addr: kafkago.TCP(s.cfg.Brokers...), Topic: topic, Transport: t,
		// As Java's producer does, so that records of one key stay in order however many partitions there are.
		Balancer:     kafkago.Murmur2Balancer{Consistent: true},
		RequiredAcks: kafkago.RequireAll, MaxAttempts: writeAttempts, BatchTimeout: writeLinger, BatchBytes: maxWrite,
	}}
}

// Write appends records in order, by their keys, and returns when all of the topic's replicas in sync have them. Partition, Offset and
// Time of a record are not looked at. After an error some of them may be there.
func (w *Writer) Write(ctx context.Context, records []debezium.Record) error {
	messages := make([]kafkago.Message, len(records))
	for i, r := range records {
		messages[i] = kafkago.Message{Key: r.Key, Value: r.Value}
		for _, h := range r.Headers {
			messages[i].Headers = append(messages[i].Headers, kafkago.Header{Key: h.Key, Value: h.Value})
		}
	}
	if err := w.writer.WriteMessages(ctx, messages...); err != nil {
		return w.explain(err)
	}
	return nil
}

// explain returns the first thing that went wrong, and whether it comes again.
func (w *Writer) explain(err error) error {
	var each kafkago.WriteErrors
	if errors.As(err, &each) {
		for _, one := range each {
			if one != nil {
				err = one
				break
			}
		}
	}
	p := debezium.Partition{Topic: w.topic, ID: -1}
	var large kafkago.MessageTooLargeError
	var c kafkago.Error
	switch {
	case errors.As(err, &large), errors.As(err, &c) && c == kafkago.MessageSizeTooLarge:
		return &Error{Class: MessageTooLarge, Partition: p, Offset: -1, Err: err, Detail: "the topic takes no record of this size; raise its max.message.bytes"}
	case errors.As(err, &c) && (c == kafkago.TopicAuthorizationFailed || c == kafkago.ClusterAuthorizationFailed):
		return &Error{Class: NotAuthorized, Partition: p, Offset: -1, Err: err, Detail: "the broker refuses the records; allow this user to WRITE to the topic"}
	}
	if final := unwelcome(err); final != nil {
		return final
	}
	return fmt.Errorf("write to topic %s: %w", w.topic, err)
}

// Close waits for what is under way.
func (w *Writer) Close() error {
	err := w.writer.Close()
	w.transport.CloseIdleConnections()
	return err
}
