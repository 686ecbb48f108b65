package debeziumtest_test

import (
	"reflect"
	"testing"
	"testing/fstest"
	"time"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
)

const captures = "../../testdata/debezium"

func TestRecordsAreWhatWasRecorded(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{"c/c.t.jsonl": {Data: []byte(
		`{"partition":0,"offset":2,"timestamp":5,"key":"","value":null}` + "\n" +
			`{"partition":0,"offset":1,"timestamp":4,"headers":{"b":"\u00c3\u009f\u0000","a":""},"key":null,"value":"{}"}` + "\n" +
			`{"partition":0,"offset":3,"timestamp":6,"headers":null,"key_base64":"AAE=","value_base64":null}` + "\n")}}
	got, err := debeziumtest.LoadFS(files, "c")
	p := debezium.Partition{Topic: "c.t"}
	want := map[string][]debezium.Record{"c.t": {
		{Partition: p, Offset: 1, Time: time.UnixMilli(4).UTC(), Value: []byte("{}"), Headers: []debezium.Header{{Key: "b", Value: []byte("ß\x00")}, {Key: "a", Value: []byte{}}}},
		{Partition: p, Offset: 2, Time: time.UnixMilli(5).UTC(), Key: []byte{}},
		{Partition: p, Offset: 3, Time: time.UnixMilli(6).UTC(), Key: []byte{0, 1}},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v; want %+v", got, err, want)
	}
}

func TestReplayKeepsPartitionsInOrderAndTablesFirst(t *testing.T) {
	t.Parallel()
	for _, connector := range []string{"plain", "bare"} {
		topics, err := debeziumtest.Load(captures + "/" + connector)
		if err != nil {
			t.Fatal(err)
		}
		records, err := debeziumtest.Replay(captures + "/" + connector)
		if err != nil {
			t.Fatal(err)
		}
		next := map[string]int{}
		rows := false
		for i := range records {
			r := &records[i]
			topic := r.Partition.Topic
			if want := topics[topic][next[topic]]; !reflect.DeepEqual(*r, want) {
				t.Fatalf("%s: record %d of %s is not the recorded one", connector, next[topic], topic)
			}
			next[topic]++
			rows = rows || topic != connector
			if topic == connector && next[topic] <= 38 && rows { // 21 statements and 17 tables of the snapshot
				t.Errorf("%s: schema change %d comes after other records", connector, next[topic])
			}
		}
		for topic, want := range topics {
			if next[topic] != len(want) {
				t.Errorf("%s: got %d records of %s, want %d", connector, next[topic], topic, len(want))
			}
		}
	}
}

func TestBadFilesAreErrors(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{
		"no JSON": `{`, "header is no text": `{"headers":{"a":1}}`, "header is no bytes": `{"headers":{"a":"\u0100"}}`, "headers are a list": `{"headers":["a"]}`,
	} {
		if _, err := debeziumtest.LoadFS(fstest.MapFS{"c/t.jsonl": {Data: []byte(line)}}, "c"); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := debeziumtest.Load(t.TempDir()); err == nil {
		t.Error("empty folder: no error")
	}
}
