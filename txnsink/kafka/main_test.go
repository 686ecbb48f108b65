package kafka

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator/debezium/kafka/broker"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
	"replicator/txnsink/sinktest"
)

// newBroker starts a broker for one test.
func newBroker(t *testing.T, o broker.Options) *broker.Broker {
	t.Helper()
	b, err := broker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func urlOf(b *broker.Broker) string {
	return "kafka://" + strings.Join(b.Addrs(), ",") + "/changes"
}

// open opens a sink that is closed with the test.
func open(t *testing.T, c Config) *Sink {
	t.Helper()
	s, err := Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := s.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// message is one that a reader has seen.
type message struct {
	partition int32
	op, table string
	key       string
	value     string
	other     string // the header to or from
}

// read returns what a read_committed reader sees, in the order of each partition, up to where all is decided.
func read(t *testing.T, b *broker.Broker, topic string) []message {
	t.Helper()
	var out []message
	for p, end := range stable(t, b, topic) {
		c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
			kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {p: kgo.NewOffset().At(0)}}))
		if err != nil {
			t.Fatal(err)
		}
		for next := int64(0); next < end; {
			fetches := c.PollFetches(t.Context())
			if err := fetches.Err(); err != nil {
				t.Fatal(err)
			}
			for _, r := range fetches.Records() {
				next = r.Offset + 1
				if !r.Attrs.IsControl() {
					out = append(out, messageOf(r))
				}
			}
		}
		c.Close()
	}
	return out
}

func messageOf(r *kgo.Record) message {
	m := message{partition: r.Partition, key: string(r.Key), value: string(r.Value)}
	for _, h := range r.Headers {
		switch h.Key {
		case headerOp:
			m.op = string(h.Value)
		case headerTable:
			m.table = string(h.Value)
		case headerTo, headerFrom:
			m.other = string(h.Value)
		}
	}
	return m
}

// reader makes rows of what it sees, as a consumer of the topic would. Rows that left a key wait for their move.
type reader struct {
	rows map[string]map[string]any // by key
	at   map[string]int32          // the partition of each key
	bag  map[string]int            // by row, as JSON
	away map[string]map[string]any // by the old key
}

func (r *reader) apply(t *testing.T, m message) {
	t.Helper()
	object := func(text string) map[string]any {
		out := map[string]any{}
		if err := json.Unmarshal([]byte(text), &out); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return out
	}
	if op := sqlgen.Op(m.op); op != sqlgen.OpTruncate && op != sqlgen.OpDrop {
		r.at[m.key] = m.partition
	}
	switch sqlgen.Op(m.op) {
	case sqlgen.OpTruncate, sqlgen.OpDrop:
		// It comes in each partition, for the rows of that one.
		maps.DeleteFunc(r.rows, func(key string, _ map[string]any) bool { return r.at[key] == m.partition })
		if r.at[m.key] == m.partition {
			clear(r.bag)
		}
	case sqlgen.OpUpsert, sqlgen.OpUpdate:
		if r.rows[m.key] == nil {
			r.rows[m.key] = map[string]any{}
		}
		maps.Copy(r.rows[m.key], object(m.value))
	case sqlgen.OpDelete:
		if m.value != "" {
			r.bag[m.value]--
		}
		delete(r.rows, m.key)
	case sqlgen.OpLeave:
		r.away[m.key] = r.rows[m.key]
		delete(r.rows, m.key)
	case sqlgen.OpMove:
		row := maps.Clone(r.away[m.other])
		if row == nil {
			row = map[string]any{}
		}
		maps.Copy(row, object(m.value))
		r.rows[m.key] = row
	case sqlgen.OpInsert:
		r.bag[m.value]++
	case sqlgen.OpReplace:
		var v struct{ Before, After json.RawMessage }
		if err := json.Unmarshal([]byte(m.value), &v); err != nil {
			t.Fatal(err)
		}
		r.bag[string(v.Before)]--
		r.bag[string(v.After)]++
	}
}

// rowsOf returns what a reader makes of a table's messages: values joined by "|", sorted.
func rowsOf(t *testing.T, messages []message, table string, columns []string) []string {
	t.Helper()
	r := &reader{rows: map[string]map[string]any{}, at: map[string]int32{}, bag: map[string]int{}, away: map[string]map[string]any{}}
	for _, m := range messages {
		if m.table == table {
			r.apply(t, m)
		}
	}
	text := func(row map[string]any) string {
		var values []string
		for _, c := range columns {
			if v := row[c]; v != nil {
				values = append(values, fmt.Sprint(v))
			} else {
				values = append(values, "NULL")
			}
		}
		return strings.Join(values, "|")
	}
	out := []string{}
	for _, row := range r.rows {
		out = append(out, text(row))
	}
	for row, n := range r.bag {
		var v map[string]any
		if err := json.Unmarshal([]byte(row), &v); err != nil {
			t.Fatal(err)
		}
		for range n {
			out = append(out, text(v))
		}
	}
	slices.Sort(out)
	return out
}

// stable returns where each partition's last stable offset is.
func stable(t *testing.T, b *broker.Broker, topic string) map[int32]int64 {
	t.Helper()
	return offsets(t, b, func(c *kadm.Client) (kadm.ListedOffsets, error) { return c.ListCommittedOffsets(t.Context(), topic) })
}

// ends returns where each partition ends.
func ends(t *testing.T, b *broker.Broker, topic string) map[int32]int64 {
	t.Helper()
	return offsets(t, b, func(c *kadm.Client) (kadm.ListedOffsets, error) { return c.ListEndOffsets(t.Context(), topic) })
}

func offsets(t *testing.T, b *broker.Broker, ask func(*kadm.Client) (kadm.ListedOffsets, error)) map[int32]int64 {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Addrs()...))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := ask(kadm.NewClient(c))
	if err == nil {
		err = list.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	out := map[int32]int64{}
	list.Each(func(o kadm.ListedOffset) { out[o.Partition] = o.Offset })
	return out
}

func TestSink(t *testing.T) {
	t.Parallel()
	sinktest.Run(t, func(t *testing.T) sinktest.Harness {
		b := newBroker(t, broker.Options{})
		columns := map[string][]string{"items": {"id", "name", "n"}, "log": {"line", "n"}}
		return sinktest.Harness{
			Open: func(t *testing.T, pipeline string) txnsink.Sink {
				return open(t, Config{URL: urlOf(b), Pipeline: pipeline})
			},
			Rows: func(t *testing.T, table schema.Name) []string {
				return rowsOf(t, read(t, b, "changes"), table.Table, columns[table.Table])
			},
			Pipeline: "shop", Log: true,
		}
	})
}
