package kafka

import (
	"encoding/hex"
	"math"
	"time"

	"github.com/segmentio/kafka-go/protocol"
)

// The versions of Fetch that are spoken: 13 names topics by id, so that a topic created again is an error and not read on;
// before it, names. 4 is the first with record batches and read_committed.
const (
	fetchIDs  int16 = 13
	fetchMax  int16 = 11
	fetchMin  int16 = 4
	committed int8  = 1
)

// topicPartition names a partition in a response: by the topic's name, or by its id since version 13.
type topicPartition struct {
	topic string
	id    int32
}

// fetched is one partition of a fetch response.
type fetched struct {
	topicPartition
	err     code
	stable  int64 // last stable offset
	start   int64 // the log's first offset; -1 before version 5
	aborted []aborted
	set     []byte
}

// fetchVersion is the version for parts on a broker that speaks up to highest.
func fetchVersion(highest int16, parts []*part) int16 {
	if highest < fetchIDs {
		return min(highest, fetchMax)
	}
	for _, p := range parts {
		if p.topicID == "" {
			return fetchMax
		}
	}
	return fetchIDs
}

// byTopic groups parts by topic, in the order of the first of each.
func byTopic(parts []*part) [][]*part {
	at := map[string]int{}
	var out [][]*part
	for _, p := range parts {
		i, ok := at[p.key.Topic]
		if !ok {
			i = len(out)
			at[p.key.Topic] = i
			out = append(out, nil)
		}
		out[i] = append(out[i], p)
	}
	return out
}

// fetchCall asks broker for what follows the positions of parts: up to most bytes for each, without a session, by
// read_committed, at once if there is a byte and after wait otherwise.
func fetchCall(version int16, broker int32, parts []*part, most int, wait time.Duration) *call {
	flexible := version >= 12
	// A response that reaches the request's maximum starves the partitions at its end, so it is far above the sum.
	sum := most * len(parts)
	b := appendInt32(nil, -1) // replica id of a consumer
	b = appendInt32(b, int32(wait.Milliseconds()))
	b = appendInt32(b, 1) // at least
	b = appendInt32(b, int32(min(4*sum+(64<<20), math.MaxInt32)))
	b = append(b, byte(committed))
	if version >= 7 {
		b = appendInt32(b, 0)  // session
		b = appendInt32(b, -1) // its epoch: none
	}
	topics := byTopic(parts)
	b = appendCount(b, flexible, len(topics))
	for _, t := range topics {
		if version >= fetchIDs {
			b = appendID(b, t[0].topicID)
		} else {
			b = appendString(b, t[0].key.Topic)
		}
		b = appendCount(b, flexible, len(t))
		for _, p := range t {
			b = appendPartition(b, version, p, most)
		}
		b = appendTags(b, flexible)
	}
	if version >= 7 {
		b = appendCount(b, flexible, 0) // forgotten topics
	}
	switch {
	case flexible:
		b = append(b, 1) // no rack
	case version >= 11:
		b = appendString(b, "")
	}
	return &call{
		broker: broker, key: protocol.Fetch, version: version, flexible: flexible, body: appendTags(b, flexible),
		expect: sum + 64<<10,
	}
}

func appendPartition(b []byte, version int16, p *part, most int) []byte {
	b = appendInt32(b, p.key.ID)
	if version >= 9 {
		b = appendInt32(b, -1) // leader epoch: not checked
	}
	b = appendInt64(b, p.next)
	if version >= 12 {
		b = appendInt32(b, -1) // last fetched epoch: not checked
	}
	if version >= 5 {
		b = appendInt64(b, -1) // a follower's log start
	}
	b = appendInt32(b, int32(most))
	return appendTags(b, version >= 12)
}

func appendID(b []byte, id string) []byte {
	var raw [16]byte
	// Ids come from wire.uuid or from a checkpoint that was checked against it; another one names no topic and is answered so.
	if n, err := hex.Decode(raw[:], []byte(id[:min(len(id), 32)])); err != nil || n != len(raw) {
		raw = [16]byte{}
	}
	return append(b, raw[:]...)
}

// parseFetch reads a fetch response; record sets share body's memory.
func parseFetch(version int16, body []byte) ([]fetched, error) {
	w, compact := wire{b: body}, version >= 12
	w.int32() // throttle
	if version >= 7 {
		if c := code(w.int16()); c != codeNone {
			return nil, c
		}
		w.int32() // session
	}
	var out []fetched
	for n := w.count(compact, 3); n > 0 && !w.bad; n-- {
		var topic string
		if version >= fetchIDs {
			topic = w.uuid()
		} else {
			topic = w.string(compact)
		}
		for m := w.count(compact, 20); m > 0 && !w.bad; m-- {
			f := parseFetched(&w, version)
			f.topic = topic
			out = append(out, f)
		}
		if compact {
			w.tags()
		}
	}
	if w.bad {
		return nil, errTruncated
	}
	return out, nil
}

func parseFetched(w *wire, version int16) fetched {
	compact := version >= 12
	var f fetched
	f.id = w.int32()
	f.err = code(w.int16())
	w.int64() // high watermark
	f.stable, f.start = w.int64(), -1
	if version >= 5 {
		f.start = w.int64()
	}
	for n := w.count(compact, 16); n > 0 && !w.bad; n-- {
		f.aborted = append(f.aborted, aborted{producer: w.int64(), first: w.int64()})
		if compact {
			w.tags()
		}
	}
	if version >= 11 {
		w.int32() // preferred replica: none, as no rack is sent
	}
	f.set = w.bytes(compact)
	if compact {
		w.tags()
	}
	return f
}

// scope is a fetch response's partition by the names that the request used.
func (p *part) scope(version int16) topicPartition {
	if version >= fetchIDs {
		return topicPartition{p.topicID, p.key.ID}
	}
	return topicPartition{p.key.Topic, p.key.ID}
}
