package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/debezium/kafka/broker"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// kafkaTarget is a pipeline from a topic to another of the same broker.
type kafkaTarget struct {
	broker *broker.Broker
	file   string
	text   string
	source string // topic
	topic  string // of the target
}

func newKafkaTarget(t *testing.T, b *broker.Broker, name, more string) *kafkaTarget {
	t.Helper()
	k := &kafkaTarget{broker: b, source: name + ".shop.items", topic: name + "-changes"}
	k.text = fmt.Sprintf(`pipeline: %s
source:
  brokers: [%s]
  topics: ['%s\.shop\..*']
target:
  url: kafka://%s/%s
checkpoint:
  store: file:%s
  rows: 3
http: {listen: ''}
log: {level: warn}
%s`, name, b.Addrs()[0], name, b.Addrs()[0], k.topic, t.TempDir(), more)
	k.file = configFile(t, k.text)
	if err := b.CreateTopic(k.source, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.CreateTopic(k.topic, 3, nil); err != nil {
		t.Fatal(err)
	}
	return k
}

// produce appends the creation of rows.
func (k *kafkaTarget) produce(t *testing.T, from, to int) {
	t.Helper()
	var records []debezium.Record
	for id := from; id < to; id++ {
		records = append(records, debezium.Record{
			Partition: debezium.Partition{Topic: k.source},
			Key:       fmt.Appendf(nil, `{"id":%d}`, id),
			Value: fmt.Appendf(nil, `{"before":null,"after":{"id":%d,"v":"x"},"source":{"connector":"mysql","name":"p","db":"shop","table":"items",`+
				`"snapshot":"false","file":"binlog.1","pos":%d,"row":0},"op":"c"}`, id, 100+id),
		})
	}
	if err := k.broker.Produce(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
}

// each has do see what a read_committed reader sees, up to where nothing is in doubt.
func (k *kafkaTarget) each(t *testing.T, do func(*kgo.Record)) {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(k.broker.Addrs()...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.ConsumeTopics(k.topic))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := kadm.NewClient(c).ListCommittedOffsets(t.Context(), k.topic)
	if err != nil {
		t.Fatal(err)
	}
	ends := map[int32]int64{}
	list.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			ends[o.Partition] = o.Offset
		}
	})
	for len(ends) > 0 {
		fetches := c.PollFetches(t.Context())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		for _, r := range fetches.Records() {
			if r.Offset+1 >= ends[r.Partition] {
				delete(ends, r.Partition)
			}
			if !r.Attrs.IsControl() {
				do(r)
			}
		}
	}
}

// messages counts the messages of rows, each as op, key and value.
func (k *kafkaTarget) messages(t *testing.T) map[string]int {
	t.Helper()
	seen := map[string]int{}
	k.each(t, func(r *kgo.Record) {
		if op := string(r.Headers[0].Value); op != string(sqlgen.OpCreate) {
			seen[fmt.Sprintf("%s %s %s", op, r.Key, r.Value)]++
		}
	})
	return seen
}

func upserts(from, to int) map[string]int {
	want := map[string]int{}
	for id := from; id < to; id++ {
		want[fmt.Sprintf(`upsert {"table":"items","key":{"id":%d}} {"id":%d,"v":"x"}`, id, id)] = 1
	}
	return want
}

func (k *kafkaTarget) expect(t *testing.T, want map[string]int) {
	t.Helper()
	if got := k.messages(t); !maps.Equal(got, want) {
		t.Errorf("a reader sees %v\nwant %v", got, want)
	}
}

func startBroker(t *testing.T) *broker.Broker {
	t.Helper()
	b, err := broker.Start(broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func TestChangesArePublishedToKafka(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	for _, delivery := range []string{"two-phase", "one-phase", "write-ahead", "at-least-once", "at-most-once"} {
		t.Run(delivery, func(t *testing.T) {
			t.Parallel()
			k := newKafkaTarget(t, b, delivery, "delivery: "+delivery+"\nworkers: 2\n")
			for i := range 2 {
				k.produce(t, 10*i, 10*i+10)
				if code, _, stderr := call(t, "run", "--config", k.file, "--until-caught-up"); code != 0 {
					t.Fatalf("exit code %d: %s", code, stderr)
				}
			}
			k.expect(t, upserts(0, 20))
		})
	}
}

// TestKafkaTargetDiesBetweenEachTwoSteps lets a run die at each call of its sink or its store, before and after the call took effect,
// with all that it has open, and then another run go on.
func TestKafkaTargetDiesBetweenEachTwoSteps(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	const rows = 64 // so many that both workers have some
	died := map[string]bool{}
	for n := 1; ; n++ {
		k := newKafkaTarget(t, b, fmt.Sprintf("die%d", n), "workers: 2\n")
		k.produce(t, 0, rows)
		m := &mortal{at: n}
		err := k.runMortal(t, m)
		if m.died == "" {
			if err != nil {
				t.Fatalf("a run that did not die failed: %v", err)
			}
			break
		}
		died[m.died] = true
		if code, _, stderr := call(t, "run", "--config", k.file, "--until-caught-up"); code != 0 {
			t.Fatalf("after dying %s: exit code %d: %s", m.died, code, stderr)
		}
		if got, want := k.messages(t), upserts(0, rows); !maps.Equal(got, want) {
			t.Errorf("after dying %s a reader sees %v\nwant %v", m.died, got, want)
		}
	}
	for _, call := range []string{"Fence", "Begin", "Apply", "PreCommit", "Save", "Commit", "Define"} {
		for _, when := range []string{"before ", "after "} {
			if !died[when+call] {
				t.Errorf("no run died %s%s: %v", when, call, slices.Sorted(maps.Keys(died)))
			}
		}
	}
}

// runMortal runs the pipeline until it has caught up or died. What it has open then is left open, as a dead process leaves it.
func (k *kafkaTarget) runMortal(t *testing.T, m *mortal) error {
	t.Helper()
	c, err := parseConfig(k.file, []byte(k.text), nil, env())
	if err != nil {
		t.Fatal(err)
	}
	log := c.logger(t.Output())
	e, err := openEnds(t.Context(), &c, log)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	}()
	p := pipelineConfig(&c, e, log)
	p.Sink, p.Store, p.UntilCaughtUp = mortalSink{p.Sink, m}, mortalStore{p.Store, m}, true
	return checkpoint.Run(t.Context(), p)
}

func TestKafkaTargetIsChecked(t *testing.T) {
	t.Parallel()
	b := startBroker(t)
	k := newKafkaTarget(t, b, "checked", "")
	k.produce(t, 0, 3)
	for _, c := range []struct {
		set, level, says string
		code             int
	}{
		{"", levelOK, "has 14m59s to come back", 0},
		{"target.transaction_timeout=16m", levelError, "the brokers allow 15m0s (transaction.max.timeout.ms)", exitPreflight},
		{"checkpoint.interval=8m", levelError, "before it is prepared", exitPreflight},
		{"delivery=one-phase", levelOK, "may be open for 15m0s", 0},
	} {
		args := []string{"check", "--config", k.file}
		if c.set != "" {
			args = append(args, "--set", c.set)
		}
		list := facts[[]finding](t, c.code, args...)
		i := slices.IndexFunc(list, func(f finding) bool { return f.Check == "transaction timeout" })
		if i < 0 || list[i].Level != c.level || !strings.Contains(list[i].Message, c.says) {
			t.Errorf("%s: got %+v, want %s: %s", c.set, list, c.level, c.says)
		}
	}
	for _, args := range [][]string{
		{"verify", "--set", "verify.source=mysql://u@h:3306/"}, {"cutover", "--set", "verify.source=mysql://u@h:3306/"}, {"sql"}, {"schema", "plan"}, {"dead-letters", "list"}, {"migrate", "down", "--to", "1"},
	} {
		if code, _, stderr := call(t, append(args, "--config", k.file)...); code == 0 || !strings.Contains(stderr, "target") {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
	}
	if code, _, stderr := call(t, "run", "--config", k.file, "--set", "target.transaction_timeout=16m", "--until-caught-up"); code != exitFailed ||
		!strings.Contains(stderr, "lower target.transaction_timeout, or raise transaction.max.timeout.ms") {
		t.Errorf("a time-out that the brokers refuse: exit code %d: %s", code, stderr)
	}
	if code, _, stderr := call(t, "migrate", "up", "--config", k.file); code != 0 {
		t.Errorf("migrate up: exit code %d: %s", code, stderr)
	}
	if got := facts[[]transactionFacts](t, 0, "transactions", "list", "--config", k.file); len(got) != 0 {
		t.Errorf("transactions: %+v", got)
	}
}

// mortal dies at one of the calls that change something: from then on every call fails and does nothing.
type mortal struct {
	at int // the (at+1)/2-th call, before it takes effect if at is odd, else after

	mu    sync.Mutex
	calls int
	died  string
}

// errDead is permanent: a dead run does not start again.
var errDead error = &sqlgen.RowError{Class: "dead", Err: errors.New("the process is dead")}

// do runs a call named what.
func (m *mortal) do(what string, call func() error) error {
	m.mu.Lock()
	m.calls++
	n := m.calls
	if m.died == "" && m.at == 2*n-1 {
		m.died = "before " + what
	}
	dead := m.died != ""
	m.mu.Unlock()
	if dead {
		return errDead
	}
	err := call()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.died == "" && m.at == 2*n {
		m.died = "after " + what
	}
	if m.died != "" {
		return errDead
	}
	return err
}

// alive says whether calls that change nothing are answered.
func (m *mortal) alive() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.died != "" {
		return errDead
	}
	return nil
}

type mortalStore struct {
	checkpoint.Store
	m *mortal
}

func (s mortalStore) Save(ctx context.Context, c checkpoint.Checkpoint, retain int) error {
	return s.m.do("Save", func() error { return s.Store.Save(ctx, c, retain) })
}

type mortalSink struct {
	txnsink.Sink
	m *mortal
}

func (s mortalSink) Fence(ctx context.Context, pipeline string, epoch int64, workers int) error {
	return s.m.do("Fence", func() error { return s.Sink.Fence(ctx, pipeline, epoch, workers) })
}

func (s mortalSink) Define(ctx context.Context, d txnsink.Definition) error {
	return s.m.do("Define", func() error { return s.Sink.Define(ctx, d) })
}

func (s mortalSink) Commit(ctx context.Context, id txnsink.ID) error {
	return s.m.do("Commit", func() error { return s.Sink.Commit(ctx, id) })
}

func (s mortalSink) Begin(ctx context.Context, id txnsink.ID) (txnsink.Txn, error) {
	var txn txnsink.Txn
	err := s.m.do("Begin", func() (err error) {
		txn, err = s.Sink.Begin(ctx, id)
		return err
	})
	return mortalTxn{txn, s.m}, err
}

type mortalTxn struct {
	txnsink.Txn
	m *mortal
}

func (t mortalTxn) Apply(ctx context.Context, batch []sqlgen.Statement) error {
	return t.m.do("Apply", func() error { return t.Txn.Apply(ctx, batch) })
}

func (t mortalTxn) PreCommit(ctx context.Context) error {
	return t.m.do("PreCommit", func() error { return t.Txn.PreCommit(ctx) })
}

func (t mortalTxn) Abort(ctx context.Context) error {
	if err := t.m.alive(); err != nil {
		return err
	}
	return t.Txn.Abort(ctx)
}
