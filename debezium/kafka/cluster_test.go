package kafka

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
)

func TestReadingGoesOnAfterALeaderMove(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{Nodes: 3})
	check(t, b.CreateTopic("t", 3, nil))
	ctx := testContext(t)
	// Metadata is looked at only when a fetch says that it should be.
	s := newSource(t, b, func(c *Config) { c.DiscoverEvery = time.Hour })
	r := open(t, s, nil)
	got := map[debezium.Partition][]debezium.Record{}
	read := 0
	for round := range 6 {
		for id := range int32(3) {
			p := debezium.Partition{Topic: "t", ID: id}
			check(t, b.Produce(ctx, numbered(p, 5*round, 5)...))
		}
		for read < 15*(round+1) {
			batch, err := r.Next(ctx)
			check(t, err)
			got[batch.Partition] = append(got[batch.Partition], batch.Records...)
			read += len(batch.Records)
		}
		for id := range int32(3) {
			check(t, b.MoveLeader("t", id, (b.Leader("t", id)+1)%3))
		}
	}
	for p, records := range got {
		same(t, records, oracle(t, b, p, 0))
	}
}

func TestReadingGoesOnWhenANodeIsReplaced(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{Nodes: 2})
	check(t, b.CreateTopic("t", 1, nil))
	p := debezium.Partition{Topic: "t"}
	ctx := testContext(t)
	r := open(t, newSource(t, b, func(c *Config) { c.DiscoverEvery = time.Hour }), nil)
	var got []debezium.Record
	for node := int32(2); node < 5; node++ {
		check(t, b.ProduceWith(ctx, "none", numbered(p, int(node), 5)...))
		for n := len(got); len(got) < n+5; {
			batch, err := r.Next(ctx)
			check(t, err)
			got = append(got, batch.Records...)
		}
		old := b.Leader("t", 0)
		check(t, b.StartNode(node))
		check(t, b.MoveLeader("t", 0, node))
		check(t, b.StopNode(old))
	}
	check(t, b.ProduceWith(ctx, "none", numbered(p, 9, 5)...))
	for len(got) < 20 {
		batch, err := r.Next(ctx)
		check(t, err)
		got = append(got, batch.Records...)
	}
	same(t, got, oracle(t, b, p, 0))
}

func TestNewTopicsAndPartitionsAreReadFromTheirStart(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	check(t, b.CreateTopic("t1", 1, nil))
	ctx := testContext(t)
	old := debezium.Partition{Topic: "t1"}
	check(t, b.Produce(ctx, numbered(old, 0, 3)...))
	r := open(t, newSource(t, b, func(c *Config) { c.Start = "latest" }), nil)
	check(t, b.AddPartitions(ctx, "t1", 1))
	check(t, b.CreateTopic("t2", 1, nil))
	check(t, b.CreateTopic("other", 1, nil))
	added, created := debezium.Partition{Topic: "t1", ID: 1}, debezium.Partition{Topic: "t2"}
	want := map[debezium.Partition]int{old: 2, added: 3, created: 4}
	check(t, b.ProduceWith(ctx, "none", numbered(debezium.Partition{Topic: "other"}, 0, 1)...))
	check(t, b.ProduceWith(ctx, "none", numbered(added, 0, 3)...))
	check(t, b.ProduceWith(ctx, "none", numbered(created, 0, 4)...))
	check(t, b.ProduceWith(ctx, "none", numbered(old, 3, 2)...))
	got := map[debezium.Partition]int{}
	for fmt.Sprint(got) != fmt.Sprint(want) {
		batch, err := r.Next(ctx)
		if err != nil {
			t.Fatalf("read %v, not %v: %v", got, want, err)
		}
		got[batch.Partition] += len(batch.Records)
	}
}

func TestTopicsAreMatchedByWholeNames(t *testing.T) {
	t.Parallel()
	s, err := New(Config{
		Brokers: []string{"h:1"}, Exclude: []string{"shop.shop.schema"},
		Topics: []string{`shop\.shop\..*`, `a|b`, `__debezium-heartbeat\..*`, `.*consumer.*`},
	})
	check(t, err)
	for name, want := range map[string]bool{
		"shop.shop.customers": true, "shopXshop.customers": false, "my.shop.shop.customers": false, "shop.shop.": true,
		"a": true, "b": true, "ab": false, "shop.shop.schema": false,
		"__debezium-heartbeat.shop": true, "__consumers": false, "consumers": true,
	} {
		if got := s.matches(topicMeta{name: name}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if s.matches(topicMeta{name: "a", internal: true}) {
		t.Error("a topic of Kafka's own is matched")
	}
}

func TestDescribeListsWhatIsRead(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{Nodes: 2})
	for _, name := range []string{"t2", "t1", "u", "__t"} {
		check(t, b.CreateTopic(name, 2, nil))
	}
	ctx := testContext(t)
	p := debezium.Partition{Topic: "t1", ID: 1}
	check(t, b.Produce(ctx, numbered(p, 0, 5)...))
	check(t, b.DeleteRecords("t1", 1, 2))
	s := newSource(t, b, nil)
	infos, err := s.Describe(ctx)
	check(t, err)
	want := []TopicInfo{
		{Name: "t1", Partitions: []PartitionInfo{{Leader: b.Leader("t1", 0)}, {ID: 1, Leader: b.Leader("t1", 1), Earliest: 2, LastStable: 5}}},
		{Name: "t2", Partitions: []PartitionInfo{{Leader: b.Leader("t2", 0)}, {ID: 1, Leader: b.Leader("t2", 1)}}},
	}
	for i := range infos {
		if len(infos[i].ID) != 32 {
			t.Errorf("topic id %q", infos[i].ID)
		}
		infos[i].ID = ""
	}
	if fmt.Sprint(infos) != fmt.Sprint(want) {
		t.Errorf("%v, not %v", infos, want)
	}
	names, err := s.Topics(ctx)
	check(t, err)
	if got := strings.Join(names, " "); got != "__t t1 t2 u" {
		t.Errorf("topics %s", got)
	}
}

// Every version of the requests that is spoken, by brokers of the releases that speak it.
func TestOlderBrokersAreRead(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"v1.0", "v1.1", "v2.0", "v2.1", "v2.3", "v2.4", "v2.7", "v2.8", "v3.0", "v3.1", "v4.0"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			b := startBroker(t, broker.Options{Version: version})
			check(t, b.CreateTopic("t", 2, nil))
			p := debezium.Partition{Topic: "t", ID: 1}
			ctx := testContext(t)
			check(t, b.ProduceWith(ctx, "gzip", numbered(p, 0, 5)...))
			check(t, b.Transact(ctx, "x", false, numbered(p, 5, 5)...))
			check(t, b.Transact(ctx, "x", true, numbered(p, 10, 5)...))
			got, next := readToEnd(t, open(t, newSource(t, b, nil), nil))
			if want := []int64{0, 1, 2, 3, 4, 11, 12, 13, 14, 15}; !slices.Equal(offsets(got[p]), want) || next[p] != 17 {
				t.Errorf("offsets %v up to %d, not %v up to 17", offsets(got[p]), next[p], want)
			}
		})
	}
}

// A broker's trouble and a connection that breaks cost time and nothing else.
func TestFetchErrorsAreTriedAgain(t *testing.T) {
	t.Parallel()
	b, p := startTopic(t)
	ctx := testContext(t)
	for i := range 30 {
		check(t, b.Produce(ctx, numbered(p, i, 1)...))
	}
	n := 0
	b.Intercept(kmsg.Fetch, func(req kmsg.Request) (kmsg.Response, error, bool) {
		n++
		switch n % 5 {
		case 1:
			return nil, fmt.Errorf("the connection breaks"), true
		case 3:
			return failedFetch(req.(*kmsg.FetchRequest), []*kerr.Error{
				kerr.NotLeaderForPartition, kerr.KafkaStorageError, kerr.FencedLeaderEpoch, kerr.UnknownServerError, kerr.OffsetOutOfRange,
			}[n/5%5]), nil, true
		}
		return nil, nil, false
	})
	s := newSource(t, b, func(c *Config) { c.PartitionMax, c.Buffer = 1, 1 })
	got, _ := readToEnd(t, open(t, s, nil))
	if len(got[p]) != 30 {
		t.Errorf("%d records, not 30", len(got[p]))
	}
}

func failedFetch(req *kmsg.FetchRequest, err *kerr.Error) *kmsg.FetchResponse {
	res := req.ResponseKind().(*kmsg.FetchResponse)
	for _, rt := range req.Topics {
		st := kmsg.NewFetchResponseTopic()
		st.Topic, st.TopicID = rt.Topic, rt.TopicID
		for _, rp := range rt.Partitions {
			sp := kmsg.NewFetchResponseTopicPartition()
			if sp.Partition = rp.Partition; err != nil {
				sp.ErrorCode = err.Code
			}
			st.Partitions = append(st.Partitions, sp)
		}
		res.Topics = append(res.Topics, st)
	}
	return res
}

func TestPartitionThatKeepsFailingEndsReading(t *testing.T) {
	t.Parallel()
	b, p := startTopic(t)
	r := open(t, newSource(t, b, func(c *Config) { c.GiveUp = 200 * time.Millisecond }), nil)
	b.Intercept(kmsg.Fetch, func(req kmsg.Request) (kmsg.Response, error, bool) {
		return failedFetch(req.(*kmsg.FetchRequest), kerr.KafkaStorageError), nil, true
	})
	err := nextError(t, r)
	if !strings.Contains(err.Error(), p.String()) || !strings.Contains(err.Error(), "Storage") {
		t.Errorf("error %v", err)
	}
}

func TestRefusedTopicStops(t *testing.T) {
	t.Parallel()
	b, _ := startTopic(t)
	r := open(t, newSource(t, b, nil), nil)
	b.Intercept(kmsg.Fetch, func(req kmsg.Request) (kmsg.Response, error, bool) {
		return failedFetch(req.(*kmsg.FetchRequest), kerr.TopicAuthorizationFailed), nil, true
	})
	wantClass(t, nextError(t, r), NotAuthorized)
}

func TestSlowAnswersAreWaitedFor(t *testing.T) {
	t.Parallel()
	b, p := startTopic(t)
	check(t, b.Produce(testContext(t), numbered(p, 0, 5)...))
	b.SetLatency(150 * time.Millisecond) // three times MaxWait
	got, _ := readToEnd(t, open(t, newSource(t, b, nil), nil))
	b.SetLatency(0)
	same(t, got[p], oracle(t, b, p, 0))
}

// Close returns while fetches wait at the broker, and ends a Next that waits.
func TestCloseEndsANextThatWaits(t *testing.T) {
	t.Parallel()
	b, _ := startTopic(t)
	r := open(t, newSource(t, b, func(c *Config) { c.MaxWait = patience }), nil)
	done := make(chan error, 1)
	go func() {
		_, err := r.Next(t.Context())
		done <- err
	}()
	check(t, r.Close())
	if err := <-done; !errors.Is(err, ErrClosed) {
		t.Errorf("Next returned %v", err)
	}
	if _, err := r.Next(t.Context()); !errors.Is(err, ErrClosed) {
		t.Errorf("Next after Close returned %v", err)
	}
}
