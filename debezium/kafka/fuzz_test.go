package kafka

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator/debezium"
)

// FuzzRecordBatch decodes any bytes, with the checksums made right: they would keep the fuzzer from what lies behind them.
func FuzzRecordBatch(f *testing.F) {
	for _, set := range sets {
		var raw []byte
		for _, b := range set.batches {
			raw = append(raw, b.encode(f)...)
		}
		f.Add(raw, int64(1), int64(7), int64(3))
	}
	p := debezium.Partition{Topic: "t"}
	f.Fuzz(func(t *testing.T, set []byte, position, producer, first int64) {
		for b := set; len(b) >= batchHeader; {
			n := int64(lengthCounted) + int64(int32(binary.BigEndian.Uint32(b[atLength:])))
			if n < batchHeader || n > int64(len(b)) {
				break
			}
			sealed(b[:n])
			b = b[n:]
		}
		const limit = 1 << 20
		got, err := newDecoder(limit).decode(p, position, set, []aborted{{producer, first}})
		at := position
		for _, r := range got.records {
			if r.Offset < at || r.Offset >= got.next {
				t.Fatalf("record at %d, position %d, next %d", r.Offset, at, got.next)
			}
			at = r.Offset + 1
		}
		if got.next < position {
			t.Fatalf("next is %d, before %d (error %v)", got.next, position, err)
		}
		if most := limit * (1 + len(set)/batchHeader); got.memory > most {
			t.Fatalf("%d bytes held by a set of %d", got.memory, len(set))
		}
	})
}

// FuzzResponses reads any bytes as each response in each version that is asked for: nothing panics or allocates by a count that the bytes
// cannot hold. What franz-go can read as well is read as the same, and so is what franz-go writes of it.
func FuzzResponses(f *testing.F) {
	for _, r := range answered() {
		f.Add(r.AppendTo(nil))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		for v := fetchMin; v <= fetchIDs; v++ {
			oracle := kmsg.FetchResponse{Version: v}
			agree(t, body, &oracle, func(body []byte) ([]fetched, error) {
				got, err := parseFetch(v, body)
				for i := range got {
					got[i].set = slices.Concat(got[i].set) // whether there are no records or none is said is the same
				}
				return got, err
			}, func() ([]fetched, error) { return fetchedOf(oracle) })
		}
		for _, v := range []int16{metadataPlain, metadataIDs} {
			oracle := kmsg.MetadataResponse{Version: v}
			agree(t, body, &oracle, func(body []byte) (metadata, error) { return parseMetadata(v, body) }, func() (metadata, error) { return metadataOf(oracle), nil })
		}
		offsets := kmsg.ListOffsetsResponse{Version: offsetsVersion}
		agree(t, body, &offsets, parseOffsets, func() (map[topicPartition]listed, error) { return offsetsOf(offsets), nil })
		versions := kmsg.ApiVersionsResponse{}
		agree(t, body, &versions, parseVersions, func() (map[protocol.ApiKey]int16, error) { return versionsOf(versions) })
	})
}

// agree reads body both ways. franz-go takes lengths beyond 31 bits for null, so that what it reads need not be right.
func agree[T any](t *testing.T, body []byte, oracle kmsg.Response, parse func([]byte) (T, error), want func() (T, error)) {
	t.Helper()
	got, err := parse(body)
	if oracle.ReadFrom(body) != nil {
		return
	}
	expected, refused := want()
	if err == nil && !reflect.DeepEqual(got, expected) {
		t.Errorf("%T %d: got %+v; franz-go reads %+v", oracle, oracle.GetVersion(), got, expected)
	}
	got, err = parse(oracle.AppendTo(nil))
	if !errors.Is(err, refused) || err == nil && !reflect.DeepEqual(got, expected) {
		t.Errorf("%T %d: got %+v, %v; franz-go wrote %+v, %v", oracle, oracle.GetVersion(), got, err, expected, refused)
	}
}

// answered is a response of each kind and version, with something in each list.
func answered() []kmsg.Response {
	var out []kmsg.Response
	for v := fetchMin; v <= fetchIDs; v++ {
		aborted := kmsg.NewFetchResponseTopicPartitionAbortedTransaction()
		aborted.ProducerID, aborted.FirstOffset = 7, 3
		p := kmsg.NewFetchResponseTopicPartition()
		p.Partition, p.HighWatermark, p.LastStableOffset, p.LogStartOffset, p.RecordBatches = 2, 9, 8, 1, []byte("records")
		p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{aborted}
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic, topic.TopicID, topic.Partitions = "t", [16]byte{1, 15: 2}, []kmsg.FetchResponseTopicPartition{p, kmsg.NewFetchResponseTopicPartition()}
		out = append(out, &kmsg.FetchResponse{Version: v, Topics: []kmsg.FetchResponseTopic{topic}})
	}
	for _, v := range []int16{metadataPlain, metadataIDs} {
		broker := kmsg.NewMetadataResponseBroker()
		broker.NodeID, broker.Host, broker.Port = 1, "::1", 9092
		p := kmsg.NewMetadataResponseTopicPartition()
		p.Partition, p.Leader, p.Replicas, p.ISR = 2, 1, []int32{1}, []int32{1}
		topic := kmsg.NewMetadataResponseTopic()
		topic.Topic, topic.TopicID, topic.Partitions = kmsg.StringPtr("t"), [16]byte{1}, []kmsg.MetadataResponseTopicPartition{p}
		out = append(out, &kmsg.MetadataResponse{Version: v, ClusterID: kmsg.StringPtr("c"), Brokers: []kmsg.MetadataResponseBroker{broker}, Topics: []kmsg.MetadataResponseTopic{topic}})
	}
	p := kmsg.NewListOffsetsResponseTopicPartition()
	p.Partition, p.Offset = 2, 9
	out = append(out,
		&kmsg.ListOffsetsResponse{Version: offsetsVersion, Topics: []kmsg.ListOffsetsResponseTopic{{Topic: "t", Partitions: []kmsg.ListOffsetsResponseTopicPartition{p}}}},
		&kmsg.ApiVersionsResponse{ApiKeys: []kmsg.ApiVersionsResponseApiKey{{ApiKey: 1, MaxVersion: 13}}})
	return out
}

func fetchedOf(r kmsg.FetchResponse) ([]fetched, error) {
	if r.Version >= 7 && r.ErrorCode != 0 {
		return nil, code(r.ErrorCode)
	}
	var out []fetched
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			f := fetched{topicPartition: topicPartition{t.Topic, p.Partition}, err: code(p.ErrorCode), stable: p.LastStableOffset, start: -1, set: slices.Concat(p.RecordBatches)}
			if r.Version >= 5 {
				f.start = p.LogStartOffset
			}
			if r.Version >= fetchIDs {
				f.topic = hexID(t.TopicID)
			}
			for _, a := range p.AbortedTransactions {
				f.aborted = append(f.aborted, aborted{a.ProducerID, a.FirstOffset})
			}
			out = append(out, f)
		}
	}
	return out, nil
}

// hexID is a topic id as this package writes it: none is empty.
func hexID(id [16]byte) string {
	if id == [16]byte{} {
		return ""
	}
	return hex.EncodeToString(id[:])
}

func metadataOf(r kmsg.MetadataResponse) metadata {
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	m := metadata{id: text(r.ClusterID), brokers: map[int32]string{}}
	for _, b := range r.Brokers {
		m.brokers[b.NodeID] = hostPort(b.Host, b.Port)
	}
	for _, t := range r.Topics {
		topic := topicMeta{name: text(t.Topic), err: code(t.ErrorCode), internal: t.IsInternal}
		if r.Version >= metadataIDs {
			topic.id = hexID(t.TopicID)
		}
		for _, p := range t.Partitions {
			topic.partitions = append(topic.partitions, partitionMeta{id: p.Partition, leader: p.Leader, err: code(p.ErrorCode)})
		}
		m.topics = append(m.topics, topic)
	}
	return m
}

func offsetsOf(r kmsg.ListOffsetsResponse) map[topicPartition]listed {
	out := map[topicPartition]listed{}
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			out[topicPartition{t.Topic, p.Partition}] = listed{code(p.ErrorCode), p.Offset}
		}
	}
	return out
}

func versionsOf(r kmsg.ApiVersionsResponse) (map[protocol.ApiKey]int16, error) {
	if r.ErrorCode != 0 {
		return nil, code(r.ErrorCode)
	}
	out := map[protocol.ApiKey]int16{}
	for _, k := range r.ApiKeys {
		out[protocol.ApiKey(k.ApiKey)] = k.MaxVersion
	}
	return out, nil
}
