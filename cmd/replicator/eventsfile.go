package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
)

// Bounds of a file of events, which is held in memory.
const (
	maxEventsFile = 1 << 30
	maxEventLine  = 64 << 20
	eventsAtATime = 1000 // records of a batch
)

// eventsFile is a log that is read from a file: a line for each record, as JSON.
//
//	{"topic": "shop.shop.orders", "partition": 0, "offset": 7, "headers": {"name": "value"}, "key": {...}, "value": {...}}
//
// Key and value are JSON, or a string that holds the bytes as text, or bytes in key_base64 and value_base64; null and a missing member are
// Kafka's null. A missing topic is the file's name without .jsonl, and a missing offset the one after the record before.
type eventsFile struct {
	records map[debezium.Partition][]debezium.Record
}

type eventLine struct {
	Topic     string            `json:"topic"`
	Partition int32             `json:"partition"`
	Offset    *int64            `json:"offset"`
	Timestamp int64             `json:"timestamp"`
	Headers   map[string]string `json:"headers"`
	Key       json.RawMessage   `json:"key"`
	Value     json.RawMessage   `json:"value"`
	KeyBytes  []byte            `json:"key_base64"`
	Bytes     []byte            `json:"value_base64"`
}

func readEvents(file string) (*eventsFile, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("--events: %w", err)
	}
	source, err := scanEvents(f, strings.TrimSuffix(filepath.Base(file), ".jsonl"))
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, fmt.Errorf("--events: %s: %w", file, err)
	}
	return source, nil
}

func scanEvents(r io.Reader, topic string) (*eventsFile, error) {
	out := &eventsFile{records: map[debezium.Partition][]debezium.Record{}}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxEventLine)
	size := 0
	for n := 1; lines.Scan(); n++ {
		if size += len(lines.Bytes()); size > maxEventsFile {
			return nil, fmt.Errorf("line %d: the file is larger than %d bytes: cut it", n, maxEventsFile)
		}
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		line := eventLine{Topic: topic}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if err := out.add(&line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return out, lines.Err()
}

func (f *eventsFile) add(line *eventLine) error {
	p := debezium.Partition{Topic: line.Topic, ID: line.Partition}
	r := debezium.Record{Partition: p, Time: time.UnixMilli(line.Timestamp)}
	list := f.records[p]
	next := int64(0)
	if len(list) > 0 {
		next = list[len(list)-1].Offset + 1
	}
	r.Offset = next
	if line.Offset != nil {
		r.Offset = *line.Offset
	}
	if r.Offset < next || p.ID < 0 || p.Topic == "" {
		return fmt.Errorf("offset %d of %v cannot come here: each is larger than the one before", r.Offset, p)
	}
	var err error
	if r.Key, err = eventBytes(line.Key, line.KeyBytes); err != nil {
		return fmt.Errorf("key: %w", err)
	}
	if r.Value, err = eventBytes(line.Value, line.Bytes); err != nil {
		return fmt.Errorf("value: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(line.Headers)) {
		r.Headers = append(r.Headers, debezium.Header{Key: name, Value: []byte(line.Headers[name])})
	}
	f.records[p] = append(list, r)
	return nil
}

func eventBytes(text json.RawMessage, bytes []byte) ([]byte, error) {
	switch {
	case len(text) == 0 || string(text) == "null":
		return bytes, nil
	case text[0] != '"':
		return text, nil
	}
	var s string
	err := json.Unmarshal(text, &s)
	return []byte(s), err
}

// without leaves topics out that are not of rows.
func (f *eventsFile) without(topics ...string) *eventsFile {
	out := &eventsFile{records: maps.Clone(f.records)}
	maps.DeleteFunc(out.records, func(p debezium.Partition, _ []debezium.Record) bool { return slices.Contains(topics, p.Topic) })
	return out
}

// eventsSource makes the file a checkpoint.Source.
type eventsSource struct {
	all  *eventsFile
	rows *eventsFile
}

func (s eventsSource) History(_ context.Context, topic string, from int64) ([]debezium.Record, int64, error) {
	var out []debezium.Record
	for _, r := range s.all.records[debezium.Partition{Topic: topic}] {
		if r.Offset >= from {
			out = append(out, r)
			from = r.Offset + 1
		}
	}
	return out, from, nil
}

func (s eventsSource) Open(_ context.Context, from debezium.Positions) (checkpoint.Reader, error) {
	r := &eventsReader{file: s.rows, start: debezium.Positions{}, next: map[debezium.Partition]int{}, held: map[debezium.Partition]bool{}, changed: make(chan struct{}, 1)}
	for p := range s.rows.records {
		r.start[p] = from[p]
		r.next[p] = 0
	}
	return r, nil
}

// eventsReader gives one partition's records out after the other's.
type eventsReader struct {
	file    *eventsFile
	start   debezium.Positions
	changed chan struct{} // a partition is not held any more

	mu   sync.Mutex
	next map[debezium.Partition]int // indexes of records that are still to be read
	held map[debezium.Partition]bool
}

func (r *eventsReader) Start() debezium.Positions { return r.start }

func (r *eventsReader) End() map[debezium.Partition]int64 {
	ends := map[debezium.Partition]int64{}
	for p, list := range r.file.records {
		ends[p] = list[len(list)-1].Offset + 1
	}
	return ends
}

func (r *eventsReader) Ends(context.Context) (map[debezium.Partition]int64, error) {
	return r.End(), nil
}

// EndOf says that a topic has not grown: a file does not.
func (r *eventsReader) EndOf(context.Context, string) (int64, error) { return 0, nil }

func (r *eventsReader) Hold(p debezium.Partition, hold bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held[p] = hold
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *eventsReader) Next(ctx context.Context) (debezium.Batch, error) {
	for {
		if list, end := r.take(); len(list) > 0 {
			b := debezium.Batch{Partition: list[0].Partition, Records: list, Next: list[len(list)-1].Offset + 1, End: end}
			for i := range list {
				b.Bytes += len(list[i].Key) + len(list[i].Value)
			}
			return b, nil
		}
		select {
		case <-ctx.Done():
			return debezium.Batch{}, ctx.Err()
		case <-r.changed:
		}
	}
}

// take returns the next records of the first partition, by topic and number, that is not held, and its end.
func (r *eventsReader) take() ([]debezium.Record, int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var best debezium.Partition
	found := false
	for p := range r.next {
		if !r.held[p] && (!found || p.String() < best.String()) {
			best, found = p, true
		}
	}
	if !found {
		return nil, 0
	}
	all := r.file.records[best]
	from := r.next[best]
	to := min(from+eventsAtATime, len(all))
	if r.next[best] = to; to == len(all) {
		delete(r.next, best)
	}
	return all[from:to:to], all[len(all)-1].Offset + 1
}

func (r *eventsReader) Close() error { return nil }
