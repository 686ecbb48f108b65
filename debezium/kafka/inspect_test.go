package kafka

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
)

func TestSettingsAreThoseOfEachTopic(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	check(t, b.CreateTopic("t1", 1, map[string]string{"cleanup.policy": "compact", "retention.ms": "-1", "max.message.bytes": "5000"}))
	check(t, b.CreateTopic("t2", 1, map[string]string{"retention.ms": "60000", "retention.bytes": "1000"}))
	got, err := newSource(t, b, nil).Settings(testContext(t), []string{"t1", "t2", "nowhere"})
	check(t, err)
	want := map[string]Settings{
		"t1": {Retention: -1, RetentionBytes: -1, Compacts: true, MaxMessage: 5000},
		"t2": {Retention: time.Minute, RetentionBytes: 1000, Deletes: true, MaxMessage: got["t2"].MaxMessage},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestSampleEndsWithTheLog whatever the partitions hold: more than is asked for, less, nothing, or transactions' marks alone at the end.
func TestSampleEndsWithTheLog(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	check(t, b.CreateTopic("t", 4, nil))
	part := func(id int32) debezium.Partition { return debezium.Partition{Topic: "t", ID: id} }
	check(t, b.Produce(testContext(t), numbered(part(0), 0, 10)...))
	check(t, b.Produce(testContext(t), numbered(part(1), 0, 2)...))
	check(t, b.Transact(testContext(t), "x", false, numbered(part(2), 0, 2)...))
	from := debezium.Positions{part(0): {Offset: 5}, part(1): {}, part(2): {}, part(3): {}}
	batches, err := newSource(t, b, nil).Sample(testContext(t), from, 3, 1<<20)
	check(t, err)
	got := map[int32][]int64{}
	for _, batch := range batches {
		for _, r := range batch.Records {
			got[batch.Partition.ID] = append(got[batch.Partition.ID], r.Offset)
		}
	}
	if want := (map[int32][]int64{0: {5, 6, 7}, 1: {0, 1}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestTopicsThatMayNotBeReadAreNamed: a user may see a topic and not read it.
func TestTopicsThatMayNotBeReadAreNamed(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{Users: []broker.User{
		{Mechanism: "PLAIN", Name: "root", Password: "x"},
		{Mechanism: "PLAIN", Name: "app", Password: "y", Reads: []string{"t1"}, Describes: []string{"t2"}},
	}})
	for _, topic := range []string{"t1", "t2", "t3"} {
		check(t, b.CreateTopic(topic, 1, nil))
		check(t, b.Produce(testContext(t), numbered(debezium.Partition{Topic: topic}, 0, 1)...))
	}
	s := newSource(t, b, func(c *Config) { c.SASL = SASL{"PLAIN", "app", "y"} })
	topics, err := s.Topics(testContext(t))
	check(t, err)
	if want := []string{"t1", "t2"}; !reflect.DeepEqual(topics, want) {
		t.Errorf("it sees %v, want %v", topics, want)
	}
	from := debezium.Positions{{Topic: "t1"}: {}, {Topic: "t2"}: {}}
	_, err = s.Sample(testContext(t), from, 1, 1<<20)
	var refused *Error
	if !errors.As(err, &refused) || refused.Class != NotAuthorized || refused.Partition.Topic != "t2" {
		t.Errorf("got %v", err)
	}
	settings, err := s.Settings(testContext(t), topics)
	if err != nil || len(settings) != 0 {
		t.Errorf("got %v, %v", settings, err)
	}
}
