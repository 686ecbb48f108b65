package kafka

import (
	"slices"
	"testing"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
)

// TestHeldPartitionIsPassedOver: the others go on, and nothing of it is lost when it is held no more.
func TestHeldPartitionIsPassedOver(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	check(t, b.CreateTopic("t", 2, nil))
	held, other := debezium.Partition{Topic: "t"}, debezium.Partition{Topic: "t", ID: 1}
	ctx := testContext(t)
	check(t, b.Produce(ctx, numbered(held, 0, 2)...))
	check(t, b.Produce(ctx, numbered(other, 0, 1)...))
	r := open(t, newSource(t, b, nil), nil)
	r.Hold(held, true)
	got := map[debezium.Partition][]string{}
	next := func(p debezium.Partition, want int) {
		t.Helper()
		for len(got[p]) < want {
			batch, err := r.Next(ctx)
			check(t, err)
			got[batch.Partition] = append(got[batch.Partition], values(batch.Records)...)
		}
	}
	next(other, 1)
	check(t, b.Produce(ctx, numbered(other, 1, 2)...))
	next(other, 3)
	if len(got[held]) != 0 {
		t.Errorf("%d records of the held partition", len(got[held]))
	}
	ends, err := r.Ends(ctx)
	check(t, err)
	if ends[held] != 2 || ends[other] != 3 || r.End()[other] != 1 {
		t.Errorf("the ends are %v, and were %v", ends, r.End())
	}
	r.Hold(held, false)
	next(held, 2)
	if want := []string{"value 0", "value 1"}; !slices.Equal(got[held], want) {
		t.Errorf("read %q, want %q", got[held], want)
	}
}

// TestEndOfATopicThatIsNotRead grows with it, and is asked of another broker when the partition has moved.
func TestEndOfATopicThatIsNotRead(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	check(t, b.CreateTopic("t", 1, nil))
	check(t, b.CreateTopic("changes", 1, nil))
	ctx := testContext(t)
	r := open(t, newSource(t, b, func(c *Config) { c.Topics = []string{"t"} }), nil)
	want := func(n int64) {
		t.Helper()
		if got, err := r.EndOf(ctx, "changes"); err != nil || got != n {
			t.Errorf("EndOf = %d, %v; want %d", got, err, n)
		}
	}
	want(0)
	check(t, b.Produce(ctx, numbered(debezium.Partition{Topic: "changes"}, 0, 3)...))
	want(3)
	r.mu.Lock()
	r.elsewhere["changes"] = 9
	r.mu.Unlock()
	want(3)
	if got, err := r.EndOf(ctx, "none"); err == nil {
		t.Errorf("EndOf a topic that there is not = %d", got)
	}
}
