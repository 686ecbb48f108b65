package kafka

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator/schema"
	"replicator/txnsink"
)

// The kinds of the control topic's records.
const (
	kindFence   = "fence"
	kindWitness = "witness"
	kindTable   = "table"
	kindNote    = "note"
)

// recordKey is the key of a record on the control topic, as JSON: compaction keeps the last of each.
type recordKey struct {
	Kind     string `json:"kind"`
	Pipeline string `json:"pipeline,omitempty"` // of all but a table, which pipelines share
	Worker   int    `json:"worker,omitempty"`   // of a witness
	Schema   string `json:"schema,omitempty"`   // of a table
	Table    string `json:"table,omitempty"`
	Source   string `json:"source,omitempty"` // of a note
}

// fence says which run may write, and how many workers there have ever been.
type fence struct {
	Epoch   int64  `json:"epoch"`
	Workers int    `json:"workers"`
	Format  string `json:"format"` // of the messages: the tables' shapes are in its types
}

// witness is a worker's last transaction.
type witness struct {
	Epoch      int64  `json:"epoch"`
	Checkpoint int64  `json:"checkpoint"`
	Slot       int    `json:"slot"`
	Prepared   bool   `json:"prepared"` // it may be decided by anybody
	Note       []byte `json:"note,omitempty"`
}

// note is what a pipeline remembers of a source's table.
type note struct {
	Target schema.Name `json:"target"`
	State  string      `json:"state"`
}

// doubt is a witness that no marker follows.
type doubt struct {
	id            txnsink.ID
	slot          int
	prepared      bool // else it is being committed in one step
	producer      int64
	producerEpoch int16
	since         time.Time
}

// state is what the control topic says.
type state struct {
	fences    map[string]fence
	witnesses map[recordKey]witness
	tables    map[schema.Name]schema.Table
	notes     map[recordKey]note
	open      map[int64][]*kgo.Record // by producer id: records of a transaction that no marker has ended
	aborted   map[int64]bool          // by producer id: its last transaction was rolled back
}

// fetchBytes bounds what one request brings of the control topic; a single batch may be longer.
const fetchBytes = 4 << 20

// journal reads the control topic. It is safe for concurrent use.
type journal struct {
	client *kgo.Client
	topic  string

	mu     sync.Mutex
	leader int32 // -1: not known
	next   int64 // the offset to read from
	state  state
}

func newJournal(client *kgo.Client, topic string) *journal {
	return &journal{client: client, topic: topic, leader: -1, state: state{
		fences: map[string]fence{}, witnesses: map[recordKey]witness{}, tables: map[schema.Name]schema.Table{},
		notes: map[recordKey]note{}, open: map[int64][]*kgo.Record{}, aborted: map[int64]bool{},
	}}
}

// Bounds of reading while the partition's leader moves.
const (
	readTries = 20
	readPause = 100 * time.Millisecond
)

// view has look see what the control topic says now: everything that was written before view was called.
func (j *journal) view(ctx context.Context, look func(*state) error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for try := 1; ; try++ {
		err := j.catchUp(ctx)
		if err == nil {
			return look(&j.state)
		}
		var ke *kerr.Error
		moved := errors.As(err, &ke) && ke.Retriable
		if !moved || try == readTries || ctx.Err() != nil {
			return fmt.Errorf("read the control topic %s: %w", j.topic, plainError(err))
		}
		j.leader = -1
		if err := pause(ctx, readPause); err != nil {
			return err
		}
	}
}

// catchUp reads up to the end that the partition has now. The end is asked for: after a change of the leader it is known
// only when all that was acknowledged is below it (KIP-207), which a fetch does not wait for.
func (j *journal) catchUp(ctx context.Context) error {
	if j.leader < 0 {
		if err := j.findLeader(ctx); err != nil {
			return err
		}
	}
	end, err := j.end(ctx)
	if err != nil {
		return err
	}
	if end < j.next {
		return permanent("the topic ends at offset %d, and was read up to %d: somebody has deleted it and created it again, so what was committed is not known", end, j.next)
	}
	for j.next < end {
		if err := j.fetch(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (j *journal) findLeader(ctx context.Context) error {
	req := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(j.topic)
	req.Topics = append(req.Topics, t)
	resp, err := req.RequestWith(ctx, j.client)
	if err != nil {
		return err
	}
	if len(resp.Topics) != 1 {
		return errors.New("a broker did not answer what it was asked")
	}
	found := resp.Topics[0]
	switch err := kerr.ErrorForCode(found.ErrorCode); {
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return permanent("the topic is missing: run `replicator migrate up`, or see whether somebody has deleted it")
	case err != nil:
		return err
	case len(found.Partitions) != 1:
		return permanent("the topic has %d partitions, and must have one", len(found.Partitions))
	}
	if err := kerr.ErrorForCode(found.Partitions[0].ErrorCode); err != nil {
		return err
	}
	j.leader = found.Partitions[0].Leader
	return nil
}

func (j *journal) end(ctx context.Context) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.ReplicaID = -1
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Timestamp = -1 // the end
	t := kmsg.NewListOffsetsRequestTopic()
	t.Topic, t.Partitions = j.topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	answer, err := j.client.Broker(int(j.leader)).RetriableRequest(ctx, req)
	if err != nil {
		return 0, asMoved(err)
	}
	resp, ok := answer.(*kmsg.ListOffsetsResponse)
	if !ok || len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return 0, errors.New("a broker did not answer what it was asked")
	}
	found := resp.Topics[0].Partitions[0]
	return found.Offset, kerr.ErrorForCode(found.ErrorCode)
}

// asMoved makes an error of a broker's connection one that looking for the leader again may end.
func asMoved(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var ke *kerr.Error
	if errors.As(err, &ke) {
		return err
	}
	return fmt.Errorf("%w: %w", kerr.NotLeaderForPartition, err)
}

func (j *journal) fetch(ctx context.Context) error {
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes = -1, 1000, 1, fetchBytes
	p := kmsg.NewFetchRequestTopicPartition()
	p.FetchOffset, p.PartitionMaxBytes = j.next, fetchBytes
	t := kmsg.NewFetchRequestTopic()
	t.Topic, t.Partitions = j.topic, append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	answer, err := j.client.Broker(int(j.leader)).RetriableRequest(ctx, req)
	if err != nil {
		return asMoved(err)
	}
	resp, ok := answer.(*kmsg.FetchResponse)
	if !ok {
		return errors.New("a broker did not answer what it was asked")
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	if len(resp.Topics) != 1 || len(resp.Topics[0].Partitions) != 1 {
		return errors.New("a broker did not answer what it was asked")
	}
	found := &resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(found.ErrorCode); err != nil {
		return err
	}
	got, next := kgo.ProcessFetchPartition(kgo.ProcessFetchPartitionOpts{
		KeepControlRecords: true, Offset: j.next, IsolationLevel: kgo.ReadUncommitted(), Topic: j.topic,
	}, found, kgo.DefaultDecompressor(), nil)
	if got.Err != nil {
		return got.Err
	}
	for _, r := range got.Records {
		if err := j.state.add(r); err != nil {
			return permanent("the record at offset %d was not written by this version of the program: %v", r.Offset, err)
		}
	}
	j.next = max(j.next, next)
	return nil
}

// markerCommit is the type of the control record that commits (Kafka's ControlRecordType).
const markerCommit = 1

// add takes the next record in. What belongs to a transaction waits for its marker. A producer has one transaction at a time.
func (s *state) add(r *kgo.Record) error {
	switch {
	case r.Attrs.IsControl():
		waiting := s.open[r.ProducerID]
		delete(s.open, r.ProducerID)
		if len(r.Key) < 4 || binary.BigEndian.Uint16(r.Key[2:]) != markerCommit {
			s.aborted[r.ProducerID] = true
			return nil
		}
		delete(s.aborted, r.ProducerID)
		for _, w := range waiting {
			if err := s.set(w); err != nil {
				return err
			}
		}
		return nil
	case r.Attrs.IsTransactional():
		s.open[r.ProducerID] = append(s.open[r.ProducerID], r)
		return nil
	}
	return s.set(r)
}

// set makes a committed record what its key stands for.
func (s *state) set(r *kgo.Record) error {
	var k recordKey
	if err := json.Unmarshal(r.Key, &k); err != nil {
		return err
	}
	switch k.Kind {
	case kindFence:
		return put(s.fences, k.Pipeline, r.Value)
	case kindWitness:
		return put(s.witnesses, k, r.Value)
	case kindTable:
		return put(s.tables, schema.Name{Schema: k.Schema, Table: k.Table}, r.Value)
	case kindNote:
		return put(s.notes, k, r.Value)
	}
	return fmt.Errorf("kind %q is not known", k.Kind)
}

// put sets an element of m to a value, or removes it where there is none.
func put[K comparable, V any](m map[K]V, k K, value []byte) error {
	if value == nil {
		delete(m, k)
		return nil
	}
	var v V
	if err := json.Unmarshal(value, &v); err != nil {
		return err
	}
	m[k] = v
	return nil
}

// doubts returns a pipeline's transactions whose witness no marker follows.
func (s *state) doubts(pipeline string) ([]doubt, error) {
	var out []doubt
	for _, list := range s.open {
		for _, r := range list {
			var k recordKey
			if err := json.Unmarshal(r.Key, &k); err != nil {
				return nil, err
			}
			if k.Kind != kindWitness || k.Pipeline != pipeline {
				continue
			}
			var w witness
			if err := json.Unmarshal(r.Value, &w); err != nil {
				return nil, err
			}
			out = append(out, doubt{
				id:   txnsink.ID{Pipeline: pipeline, Epoch: w.Epoch, Checkpoint: w.Checkpoint, Worker: k.Worker},
				slot: w.Slot, prepared: w.Prepared, producer: r.ProducerID, producerEpoch: r.ProducerEpoch, since: r.Timestamp,
			})
		}
	}
	return out, nil
}

// witness returns that of a worker; zero: it has none.
func (s *state) witness(pipeline string, worker int) witness {
	return s.witnesses[recordKey{Kind: kindWitness, Pipeline: pipeline, Worker: worker}]
}

// record makes a record of the control topic. A nil value removes what the key stands for.
func (j *journal) record(k recordKey, value any) *kgo.Record {
	r := &kgo.Record{Topic: j.topic, Key: encode(k)}
	if value != nil {
		r.Value = encode(value)
	}
	return r
}

func encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a record of the control topic is always JSON: %v", err))
	}
	return b
}

// pause waits, or until ctx is done.
func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
