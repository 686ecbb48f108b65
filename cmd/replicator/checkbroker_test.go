package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
)

// TestCheckFindsWhatABrokerRefuses on a broker of its own, which knows users, or answers as it is told.
func TestCheckFindsWhatABrokerRefuses(t *testing.T) {
	t.Parallel()
	empty := caseDatabase(t, "checked_refused")
	t.Run("rights", func(t *testing.T) {
		t.Parallel()
		r := newChecked(t, empty)
		r.onBroker(t, broker.Options{Users: []broker.User{
			{Mechanism: "PLAIN", Name: "root", Password: "x"},
			{Mechanism: "PLAIN", Name: "app", Password: "y", Reads: []string{r.prefix}, Describes: []string{r.rows()}},
		}})
		r.set = []string{"source.sasl.mechanism=PLAIN", "source.sasl.username=app", "source.sasl.password=y"}
		if got, want := strings.Join(r.found(t), " "), "acls/read acls/settings"; got != want {
			t.Errorf("found %q, want %q", got, want)
		}
	})
	for name, c := range map[string]struct {
		key  kmsg.Key
		fn   func(kmsg.Request) kmsg.Response
		want string
	}{
		"offsets": {kmsg.ListOffsets, refuseOffsets, "topics/hidden"},
		"records": {kmsg.Fetch, refuseRecords, "records/unread schema_changes/unreadable"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newChecked(t, empty)
			r.onBroker(t, broker.Options{})
			r.broker.Intercept(c.key, func(req kmsg.Request) (kmsg.Response, error, bool) {
				res := c.fn(req)
				return res, nil, res != nil
			})
			got := strings.Join(r.found(t), " ")
			if name == "offsets" && strings.Contains(got, c.want) || got == c.want {
				return
			}
			t.Errorf("found %q, want %q", got, c.want)
		})
	}
}

// onBroker has the run use a broker of its own.
func (r *checked) onBroker(t *testing.T, o broker.Options) {
	t.Helper()
	b, err := broker.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r.broker = b
	r.history(t, "retention.ms", "-1")
	r.createTopic(t, r.rows(), 1)
	value := fmt.Sprintf(`{%s,"databaseName":"shop","ddl":"CREATE TABLE t","tableChanges":[{"type":"CREATE","id":"\"shop\".\"t\"","table":{"primaryKeyColumnNames":["id"],"columns":[{"name":"id","typeName":"INT","typeExpression":"INT","position":1}]}}]}`, r.source("t"))
	if err := b.Produce(t.Context(), debezium.Record{Partition: debezium.Partition{Topic: r.prefix}, Value: []byte(value)}); err != nil {
		t.Fatal(err)
	}
	r.send(t, 0, plainKey, "r", "null", `{"id":1}`)
}

const topicAuthorizationFailed, unsupportedCompression = 29, 76

func refuseOffsets(req kmsg.Request) kmsg.Response {
	asked, ok := req.(*kmsg.ListOffsetsRequest)
	if !ok {
		return nil
	}
	res := asked.ResponseKind().(*kmsg.ListOffsetsResponse)
	for _, topic := range asked.Topics {
		out := kmsg.NewListOffsetsResponseTopic()
		out.Topic = topic.Topic
		for _, p := range topic.Partitions {
			part := kmsg.NewListOffsetsResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, topicAuthorizationFailed
			out.Partitions = append(out.Partitions, part)
		}
		res.Topics = append(res.Topics, out)
	}
	return res
}

func refuseRecords(req kmsg.Request) kmsg.Response {
	asked, ok := req.(*kmsg.FetchRequest)
	if !ok {
		return nil
	}
	res := asked.ResponseKind().(*kmsg.FetchResponse)
	for _, topic := range asked.Topics {
		out := kmsg.NewFetchResponseTopic()
		out.Topic, out.TopicID = topic.Topic, topic.TopicID
		for _, p := range topic.Partitions {
			part := kmsg.NewFetchResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, unsupportedCompression
			out.Partitions = append(out.Partitions, part)
		}
		res.Topics = append(res.Topics, out)
	}
	return res
}
