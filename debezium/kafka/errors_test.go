package kafka

import (
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
)

// permanent asks as the pipeline does.
func permanent(err error) bool {
	var p interface{ Permanent() bool }
	return errors.As(err, &p) && p.Permanent()
}

// classed returns the permanent error of that class that err is, and fails if it is none.
func classed(t *testing.T, err error, class string) *Error {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Class != class || !permanent(err) {
		t.Fatalf("error %v is no permanent %s", err, class)
	}
	return e
}

// wantClass fails unless err is permanent and of a class.
func wantClass(t *testing.T, err error, class string) {
	t.Helper()
	if e := classed(t, err, class); e == nil {
		t.FailNow()
	}
}

// nextError takes batches until there is an error.
func nextError(t *testing.T, r *Reader) error {
	t.Helper()
	ctx := testContext(t)
	for {
		if _, err := r.Next(ctx); err != nil {
			if ctx.Err() != nil {
				t.Fatal("no error came")
			}
			return err
		}
	}
}

func TestPositionThatTheLogNoLongerHoldsStops(t *testing.T) {
	t.Parallel()
	b, p := startTopic(t)
	ctx := testContext(t)
	check(t, b.Produce(ctx, numbered(p, 0, 5)...))
	check(t, b.DeleteRecords("t", 0, 3))
	s := newSource(t, b, nil)
	for _, tt := range []struct {
		offset int64
		words  string
	}{{1, "the records from 1 to 2 were removed by retention"}, {6, "the log ends at 5"}} {
		_, err := s.Open(ctx, debezium.Positions{p: {Offset: tt.offset}})
		e := classed(t, err, OffsetOutOfRange)
		got, want := *e, Error{Class: OffsetOutOfRange, Partition: p, Offset: tt.offset, Start: 3, End: 5, Detail: e.Detail}
		if got != want || !strings.Contains(err.Error(), tt.words) || !strings.Contains(err.Error(), "run --from") {
			t.Errorf("from %d: %+v", tt.offset, got)
		}
	}
	for _, offset := range []int64{3, 5} {
		open(t, s, debezium.Positions{p: {Offset: offset}})
	}
}

// TestPositionOfAnIdlePartitionOutlivesItsRecords: retention deletes up to the end and no further, which is where the position is.
func TestPositionOfAnIdlePartitionOutlivesItsRecords(t *testing.T) {
	t.Parallel()
	b, p := startTopic(t)
	ctx := testContext(t)
	check(t, b.Produce(ctx, numbered(p, 0, 5)...))
	check(t, b.DeleteRecords("t", 0, 5))
	r := open(t, newSource(t, b, nil), debezium.Positions{p: {Offset: 5}})
	check(t, b.Produce(ctx, numbered(p, 5, 1)...))
	batch, err := r.Next(ctx)
	check(t, err)
	if got := values(batch.Records); !slices.Equal(got, []string{"value 5"}) || batch.Next != 6 {
		t.Errorf("read %q up to %d", got, batch.Next)
	}
}

func TestRetentionThatOvertakesTheReaderStops(t *testing.T) {
	t.Parallel()
	b, p := startTopic(t)
	ctx := testContext(t)
	for i := range 20 {
		check(t, b.Produce(ctx, numbered(p, i, 1)...))
	}
	// A buffer of one batch: the reader cannot have fetched ahead of what is deleted.
	r := open(t, newSource(t, b, func(c *Config) { c.Buffer, c.PartitionMax = 1, 1 }), nil)
	first, err := r.Next(ctx)
	check(t, err)
	if first.Next != 1 {
		t.Fatalf("the first batch ends at %d, not 1", first.Next)
	}
	check(t, b.DeleteRecords("t", 0, 15))
	e := classed(t, nextError(t, r), OffsetOutOfRange)
	if e.Start != 15 || e.End != 20 || e.Offset < 1 || e.Offset > 3 {
		t.Errorf("%+v", e)
	}
	if again := nextError(t, r); !errors.Is(again, e) {
		t.Errorf("the error does not come again: %v", again)
	}
}

func TestTruncatedTopicStops(t *testing.T) {
	t.Parallel()
	// Before topic ids, a topic created again shows by its end only.
	b := startBroker(t, broker.Options{Version: "v2.7"})
	check(t, b.CreateTopic("t", 1, nil))
	p := debezium.Partition{Topic: "t"}
	ctx := testContext(t)
	check(t, b.Produce(ctx, numbered(p, 0, 5)...))
	r := open(t, newSource(t, b, nil), nil)
	if id := r.Start()[p].TopicID; id != "" {
		t.Fatalf("a broker without topic ids gave %q", id)
	}
	_, next := readToEnd(t, r)
	check(t, b.DeleteTopic("t"))
	check(t, b.CreateTopic("t", 1, nil))
	e := classed(t, nextError(t, r), OffsetOutOfRange)
	if e.Offset != next[p] || e.End != 0 {
		t.Errorf("%+v", e)
	}
}

func TestRecreatedTopicStops(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"", "v3.0"} { // by Fetch, and by Metadata
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, broker.Options{Version: version})
			check(t, b.CreateTopic("t", 1, nil))
			p := debezium.Partition{Topic: "t"}
			ctx := testContext(t)
			check(t, b.Produce(ctx, numbered(p, 0, 5)...))
			s := newSource(t, b, nil)
			r := open(t, s, nil)
			_, next := readToEnd(t, r)
			pos := debezium.Position{Offset: next[p], TopicID: r.Start()[p].TopicID}
			check(t, b.DeleteTopic("t"))
			check(t, b.CreateTopic("t", 1, nil))
			for range 10 {
				check(t, b.ProduceWith(ctx, "none", numbered(p, 0, 1)...)) // the old position is in the new log
			}
			_, err := s.Open(ctx, debezium.Positions{p: pos})
			wantClass(t, err, TopicRecreated)
			if version == "" {
				batch, err := r.Next(ctx)
				if wantClass(t, err, TopicRecreated); len(batch.Records) > 0 {
					t.Errorf("read %v of another topic", batch.Records)
				}
				return
			}
			wantClass(t, nextError(t, r), TopicRecreated)
		})
	}
}

func TestDeletedTopicStops(t *testing.T) {
	t.Parallel()
	b, p := startTopic(t)
	ctx := testContext(t)
	check(t, b.Produce(ctx, numbered(p, 0, 5)...))
	s := newSource(t, b, nil)
	r := open(t, s, nil)
	_, next := readToEnd(t, r)
	check(t, b.DeleteTopic("t"))
	wantClass(t, nextError(t, r), TopicDeleted)
	_, err := s.Open(ctx, debezium.Positions{p: {Offset: next[p]}})
	e := classed(t, err, TopicDeleted)
	if e.Partition != p || e.Offset != next[p] {
		t.Errorf("%+v", e)
	}
}

func TestUnreachableBrokersAreAnErrorThatMayPass(t *testing.T) {
	t.Parallel()
	b, err := broker.Start(broker.Options{})
	check(t, err)
	check(t, b.CreateTopic("t", 1, nil))
	s := newSource(t, b, func(c *Config) { c.GiveUp = 300 * time.Millisecond })
	r := open(t, s, nil)
	check(t, s.Probe(testContext(t)))
	b.Close()
	for _, err := range []error{nextError(t, r), func() error { _, err := s.Open(testContext(t), nil); return err }()} {
		if err == nil || permanent(err) {
			t.Errorf("error %v", err)
		}
	}
	if err := s.Probe(testContext(t)); err == nil || !strings.Contains(err.Error(), "nothing listens there") {
		t.Errorf("probe: %v", err)
	}
}

func TestConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	good := func() Config { return Config{Brokers: []string{"h:1"}, Topics: []string{"t"}} }
	for name, change := range map[string]func(*Config){
		"no brokers":       func(c *Config) { c.Brokers = nil },
		"not host:port":    func(c *Config) { c.Brokers = []string{"h"} },
		"no topics":        func(c *Config) { c.Topics = nil },
		"topic pattern":    func(c *Config) { c.Topics = []string{"a("} },
		"start":            func(c *Config) { c.Start = "yesterday" },
		"a wait or size":   func(c *Config) { c.PartitionMax = -1 },
		`topic pattern "a`: func(c *Config) { c.Topics = []string{"a)(b"} },
	} {
		cfg := good()
		change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(good()); err != nil {
		t.Error(err)
	}
}

// TestAnotherProgramsPortIsTold: a server that answers with what is not Kafka's protocol, as MySQL does.
func TestAnotherProgramsPortIsTold(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	check(t, err)
	served := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, err = conn.Write([]byte("\x4a\x00\x00\x00\x0a9.7.4\x00"))
			_, more := io.Copy(io.Discard, conn) // until Probe gives up
			err = errors.Join(err, more, conn.Close())
		}
		served <- err
	}()
	s, err := New(Config{Brokers: []string{l.Addr().String()}, Topics: []string{"t"}})
	check(t, err)
	if err := s.Probe(testContext(t)); err == nil || !strings.Contains(err.Error(), "is this another program's port") {
		t.Errorf("probe: %v", err)
	}
	check(t, <-served)
	check(t, l.Close())
}
