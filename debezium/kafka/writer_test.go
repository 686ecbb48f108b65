package kafka

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
)

// TestWriterKeepsEachKeysOrder over several partitions, and nulls and headers as they are.
func TestWriterKeepsEachKeysOrder(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{})
	check(t, b.CreateTopic("t", 3, nil))
	s := newSource(t, b, nil)
	w := s.Writer("t")
	var records []debezium.Record
	for i := range 30 {
		records = append(records, debezium.Record{Key: fmt.Appendf(nil, "k%d", i%5), Value: fmt.Appendf(nil, "%d", i), Headers: []debezium.Header{{Key: "h", Value: []byte("v")}}})
	}
	records = append(records, debezium.Record{Value: nil})
	check(t, w.Write(testContext(t), records))
	check(t, w.Close())

	r := open(t, s, nil)
	got, in := map[string][]string{}, map[string]int32{}
	for n := 0; n < len(records); {
		batch, err := r.Next(testContext(t))
		check(t, err)
		for _, rec := range batch.Records {
			n++
			key := string(rec.Key)
			if rec.Key == nil {
				if rec.Value != nil {
					t.Errorf("null came back as %q", rec.Value)
				}
				continue
			}
			if at, known := in[key]; known && at != rec.Partition.ID || len(rec.Headers) != 1 || string(rec.Headers[0].Value) != "v" {
				t.Errorf("key %s: in partitions %d and %d, headers %v", key, at, rec.Partition.ID, rec.Headers)
			}
			in[key] = rec.Partition.ID
			got[key] = append(got[key], string(rec.Value))
		}
	}
	want := map[string][]string{}
	for _, rec := range records[:30] {
		want[string(rec.Key)] = append(want[string(rec.Key)], string(rec.Value))
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWriterSaysWhatWillComeAgain: a record that is too large, and a topic that may not be written.
func TestWriterSaysWhatWillComeAgain(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{Users: []broker.User{
		{Mechanism: "PLAIN", Name: "root", Password: "x"}, {Mechanism: "PLAIN", Name: "app", Password: "y", Describes: []string{"t"}},
	}})
	check(t, b.CreateTopic("t", 1, map[string]string{"max.message.bytes": "1000"}))
	for user, want := range map[string]string{"root": MessageTooLarge, "app": NotAuthorized} {
		s := newSource(t, b, func(c *Config) {
			c.SASL = SASL{Mechanism: "PLAIN", Username: user, Password: map[string]string{"root": "x", "app": "y"}[user]}
		})
		w := s.Writer("t")
		err := w.Write(testContext(t), []debezium.Record{{Value: make([]byte, 2000)}})
		var final *Error
		if !errors.As(err, &final) || final.Class != want {
			t.Errorf("%s: got %v, want %s", user, err, want)
		}
		check(t, w.Close())
	}
}
