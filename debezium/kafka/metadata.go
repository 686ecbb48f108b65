package kafka

import (
	"replicator/debezium"

	"github.com/segmentio/kafka-go/protocol"
)

// metadata is what a broker knows of the cluster.
type metadata struct {
	id      string           // the cluster's; empty: it is not told
	brokers map[int32]string // address by id
	topics  []topicMeta
}

// leader returns the broker that has a partition; -1: none, as far as m knows.
func (m metadata) leader(key debezium.Partition) int32 {
	for _, t := range m.topics {
		for _, p := range t.partitions {
			if t.name == key.Topic && p.id == key.ID {
				return p.leader
			}
		}
	}
	return -1
}

type topicMeta struct {
	name       string
	id         string // hex; "" from a broker before 2.8
	err        code
	internal   bool
	partitions []partitionMeta
}

type partitionMeta struct {
	id, leader int32
	err        code
}

// The versions of Metadata that are spoken: 10 has topic ids, 4 is the first that can forbid to create topics.
const (
	metadataIDs   int16 = 10
	metadataPlain int16 = 4
)

// metadataCall asks for all topics.
func metadataCall(version int16) *call {
	flexible := version >= 9
	var b []byte
	if flexible {
		b = append(b, 0) // null: all topics
	} else {
		b = appendInt32(b, -1)
	}
	b = append(b, 0) // allow_auto_topic_creation
	if version >= 8 {
		b = append(b, 0, 0) // authorized operations of the cluster and of topics
	}
	return &call{broker: anyBroker, key: protocol.Metadata, version: version, flexible: flexible, body: appendTags(b, flexible)}
}

func parseMetadata(version int16, body []byte) (metadata, error) {
	w, compact := wire{b: body}, version >= 9
	m := metadata{brokers: map[int32]string{}}
	w.int32() // throttle
	for n := w.count(compact, 8); n > 0 && !w.bad; n-- {
		id := w.int32()
		host := w.string(compact)
		m.brokers[id] = hostPort(host, w.int32())
		w.string(compact) // rack
		if compact {
			w.tags()
		}
	}
	m.id = w.string(compact)
	w.int32() // controller
	for n := w.count(compact, 6); n > 0 && !w.bad; n-- {
		m.topics = append(m.topics, parseTopic(&w, version))
	}
	if w.bad {
		return metadata{}, errTruncated
	}
	return m, nil
}

func parseTopic(w *wire, version int16) topicMeta {
	compact := version >= 9
	t := topicMeta{err: code(w.int16()), name: w.string(compact)}
	if version >= metadataIDs {
		t.id = w.uuid()
	}
	t.internal = w.bool()
	for n := w.count(compact, 12); n > 0 && !w.bad; n-- {
		p := partitionMeta{err: code(w.int16()), id: w.int32(), leader: w.int32()}
		if version >= 7 {
			w.int32() // leader epoch
		}
		w.skipInt32s(compact) // replicas
		w.skipInt32s(compact) // in sync
		if version >= 5 {
			w.skipInt32s(compact) // offline
		}
		if compact {
			w.tags()
		}
		t.partitions = append(t.partitions, p)
	}
	if version >= 8 {
		w.int32() // authorized operations
	}
	if compact {
		w.tags()
	}
	return t
}

// What ListOffsets is asked for in place of a time in milliseconds.
const (
	atEnd   int64 = -1
	atStart int64 = -2
)

// offsetsVersion is the ListOffsets version spoken: the first with an isolation level.
const offsetsVersion int16 = 2

// listed is the answer for one partition; offset is -1 when no record is as young as the time asked for.
type listed struct {
	err    code
	offset int64
}

// offsetsCall asks broker, the leader of parts, for their offset at a time. Committed: the end is the last stable offset, not
// the high watermark.
func offsetsCall(broker int32, parts []*part, at int64, committed bool) *call {
	b := appendInt32(nil, -1) // replica id of a consumer
	if committed {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	topics := byTopic(parts)
	b = appendInt32(b, int32(len(topics)))
	for _, t := range topics {
		b = appendString(b, t[0].key.Topic)
		b = appendInt32(b, int32(len(t)))
		for _, p := range t {
			b = appendInt32(b, p.key.ID)
			b = appendInt64(b, at)
		}
	}
	return &call{broker: broker, key: protocol.ListOffsets, version: offsetsVersion, body: b}
}

func parseOffsets(body []byte) (map[topicPartition]listed, error) {
	w := wire{b: body}
	out := map[topicPartition]listed{}
	w.int32() // throttle
	for n := w.count(false, 6); n > 0 && !w.bad; n-- {
		topic := w.string(false)
		for m := w.count(false, 22); m > 0 && !w.bad; m-- {
			id := w.int32()
			l := listed{err: code(w.int16())}
			w.int64() // the record's time
			l.offset = w.int64()
			out[topicPartition{topic, id}] = l
		}
	}
	if w.bad {
		return nil, errTruncated
	}
	return out, nil
}

// parseVersions reads ApiVersions version 0: the highest version that a broker speaks of each request, by its key.
func parseVersions(body []byte) (map[protocol.ApiKey]int16, error) {
	w := wire{b: body}
	if c := code(w.int16()); c != codeNone {
		return nil, c
	}
	out := map[protocol.ApiKey]int16{}
	for n := w.count(false, 6); n > 0 && !w.bad; n-- {
		key := protocol.ApiKey(w.int16())
		w.int16() // lowest
		out[key] = w.int16()
	}
	if w.bad {
		return nil, errTruncated
	}
	return out, nil
}
