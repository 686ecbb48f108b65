package kafka

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator/sqlgen"
	"replicator/txnsink"
)

// abortWithin bounds a roll-back, which must not depend on the caller's context.
const abortWithin = 5 * time.Second

// The headers of a message.
const (
	headerOp    = "op"
	headerTable = "table"
	headerTo    = "to"   // of a leave: the key that the row goes to
	headerFrom  = "from" // of a move: the key that it comes from
)

// txn is one open transaction.
type txn struct {
	sink   *Sink
	id     txnsink.ID
	worker *worker
	slot   *slot
	over   error // why nothing but Abort may follow; nil: it is open
	ended  bool  // the slot is no more this transaction's
}

var errOver = errors.New("the transaction is over")

func (t *txn) ID() txnsink.ID { return t.id }

// fail closes the producer: what it has sent is rolled back when its transactional id is taken over, at the latest.
func (t *txn) fail() {
	t.over = errors.New("it failed, and can only be rolled back")
	if p := t.slot.producer; p != nil {
		p.close()
		t.slot.producer = nil
	}
}

func (t *txn) usable(ctx context.Context) error {
	if t.over != nil {
		return fmt.Errorf("transaction %v: %w", t.id, t.over)
	}
	return t.sink.usable(ctx)
}

// Apply sends the messages. That they have arrived is known by PreCommit or Commit only.
func (t *txn) Apply(ctx context.Context, batch []sqlgen.Statement) error {
	if err := t.usable(ctx); err != nil {
		return err
	}
	for i := range batch {
		if err := t.send(ctx, &batch[i]); err != nil {
			t.over = errors.New("it failed, and can only be rolled back")
			return err
		}
	}
	if err := t.slot.producer.err(); err != nil {
		t.over = errors.New("it failed, and can only be rolled back")
		return t.sink.explain(ctx, t.id, err)
	}
	return nil
}

func (t *txn) send(ctx context.Context, st *sqlgen.Statement) error {
	messages, err := sqlgen.Messages(st)
	if err != nil {
		return err
	}
	for i := range messages {
		for _, r := range t.sink.records(st.Table.String(), &messages[i]) {
			if n := size(r); n > int(t.sink.topics.maxMessage) {
				return &sqlgen.RowError{Class: sqlgen.TooLarge, Table: st.Table, Origin: st.Origin(i), Err: fmt.Errorf(
					"the row's message has %d bytes, and the topic takes %d: raise max.message.bytes of topic %s", n, t.sink.topics.maxMessage, t.sink.address.topic)}
			}
			t.slot.producer.send(ctx, r)
		}
	}
	return nil
}

// size is no less than what a batch of the record alone takes.
func size(r *kgo.Record) int {
	n := overhead + len(r.Key) + len(r.Value)
	for _, h := range r.Headers {
		n += len(h.Key) + len(h.Value)
	}
	return n
}

// records returns the records of a message: one in the partition of its key, or one in each where it is about a whole table.
func (s *Sink) records(table string, m *sqlgen.Message) []*kgo.Record {
	headers := []kgo.RecordHeader{{Key: headerOp, Value: []byte(m.Op)}, {Key: headerTable, Value: []byte(table)}}
	switch m.Op {
	case sqlgen.OpLeave:
		headers = append(headers, kgo.RecordHeader{Key: headerTo, Value: m.Other})
	case sqlgen.OpMove:
		if m.Other != nil {
			headers = append(headers, kgo.RecordHeader{Key: headerFrom, Value: m.Other})
		}
	case sqlgen.OpTruncate, sqlgen.OpCreate, sqlgen.OpAlter, sqlgen.OpDrop:
		if s.config.SQL {
			break
		}
		out := make([]*kgo.Record, s.topics.partitions)
		for p := range out {
			out[p] = &kgo.Record{Topic: s.address.topic, Partition: int32(p), Key: m.Key, Value: m.Value, Headers: headers}
		}
		return out
	}
	r := &kgo.Record{Topic: s.address.topic, Key: m.Key, Value: m.Value, Headers: headers}
	if !s.config.SQL { // else all are to be run in one order, which one partition has
		r.Partition = int32(byKey.Partition(r, int(s.topics.partitions)))
	}
	return []*kgo.Record{r}
}

// byKey is how Kafka's own producer chooses a partition.
var byKey = kgo.StickyKeyPartitioner(nil).ForTopic("")

// PreCommit sends the witness after everything else has arrived.
func (t *txn) PreCommit(ctx context.Context) error {
	if err := t.finish(ctx, witness{Prepared: true}); err != nil {
		return err
	}
	t.over, t.ended = errOver, true
	t.sink.release(t, true)
	return nil
}

// Commit sends the witness and ends the transaction.
func (t *txn) Commit(ctx context.Context, note []byte) error {
	if err := t.finish(ctx, witness{Note: note}); err != nil {
		return err
	}
	err := t.slot.producer.end(ctx, true)
	var found witness
	if err == nil {
		// The producer may have taken its transactional id anew after an error, which rolls back.
		found, err = t.sink.settle(ctx, t.id, func(doubt) error { return nil })
	}
	if err == nil && (found.Checkpoint != t.id.Checkpoint || found.Epoch != t.id.Epoch) {
		err = errors.New("the brokers have rolled it back")
	}
	if err != nil {
		err = t.sink.explain(ctx, t.id, err)
		t.fail()
		return err
	}
	t.over, t.ended = errOver, true
	t.sink.release(t, false)
	t.sink.advance(t.id)
	return nil
}

// finish sends w, as the transaction's last record. After an error only Abort may follow.
func (t *txn) finish(ctx context.Context, w witness) (err error) {
	if err := t.usable(ctx); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			t.fail()
		}
	}()
	last := t.sink.last(t.worker)
	// The number of a checkpoint that an earlier epoch committed in one step and could not save is used again.
	if last.Checkpoint > t.id.Checkpoint || last.Checkpoint == t.id.Checkpoint && last.Epoch >= t.id.Epoch {
		return fmt.Errorf("transaction %v: the witness is at checkpoint %d already", t.id, last.Checkpoint)
	}
	if t.sink.inDoubt(t.id.Worker) {
		return fmt.Errorf("transaction %v: another one of the same worker is in doubt: %w", t.id, txnsink.ErrBusy)
	}
	p := t.slot.producer
	if err := p.flush(ctx); err != nil {
		return t.sink.explain(ctx, t.id, err)
	}
	w.Epoch, w.Checkpoint, w.Slot = t.id.Epoch, t.id.Checkpoint, t.slot.number
	p.send(ctx, t.sink.journal.record(recordKey{Kind: kindWitness, Pipeline: t.id.Pipeline, Worker: t.id.Worker}, w))
	if err := p.flush(ctx); err != nil {
		return t.sink.explain(ctx, t.id, err)
	}
	return nil
}

// explain says whether a producer has failed because a later run has taken its place.
func (s *Sink) explain(ctx context.Context, id txnsink.ID, err error) error {
	if !taken(err) {
		return fmt.Errorf("transaction %v: %w", id, plainError(err))
	}
	if ferr := s.stillFenced(ctx, id.Epoch); ferr != nil {
		return fmt.Errorf("transaction %v: %w", id, ferr)
	}
	return fmt.Errorf("transaction %v: the brokers have rolled it back, as they do after transaction_timeout: %w", id, plainError(err))
}

// Abort rolls the transaction back. If the brokers cannot be asked, they do it when its transactional id is taken over or its time is
// over.
func (t *txn) Abort(ctx context.Context) error {
	if t.ended {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortWithin)
	defer cancel()
	if p := t.slot.producer; p != nil {
		if err := p.abort(ctx); err != nil {
			t.sink.config.Log.Debug("a transaction could not be rolled back; its producer is closed", "transaction", t.id.String(), "error", err)
			t.fail()
		}
	}
	t.over, t.ended = errOver, true
	t.sink.release(t, false)
	return nil
}
