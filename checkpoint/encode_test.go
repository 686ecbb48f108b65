package checkpoint_test

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/txnsink"
)

func fullCheckpoint() checkpoint.Checkpoint {
	return checkpoint.Checkpoint{
		Pipeline: "shop", Epoch: 3, ID: 12, Rows: 77, Savepoint: true,
		Created: time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.UTC),
		Positions: debezium.Positions{
			{Topic: "b", ID: 1}:            {Offset: math.MaxInt64, TopicID: "00ff"},
			{Topic: "b", ID: 0}:            {Offset: 0},
			{Topic: `a "quoted" ä`, ID: 7}: {Offset: 1 << 53},
		},
		Txns:  []txnsink.ID{{Pipeline: "shop", Epoch: 3, Checkpoint: 12, Worker: 1}},
		Parts: []int{3},
		Ahead: []checkpoint.Ahead{{Workers: 2, Worker: 1, Positions: debezium.Positions{{Topic: "b"}: {Offset: 5, TopicID: "00ff"}}}},
		Seen: []checkpoint.Seen{{
			Source: "shop", Database: "d", Schema: "s", Table: "t", Topic: "b", Partition: 1,
			LogPosition: debezium.LogPosition{Log: "binlog", At: [4]uint64{12, math.MaxUint64}, Txn: "x"},
			Digests:     []uint64{math.MaxUint64, 1}, Count: 3, Cursor: 2, Order: 5, SentNs: 6, TsMs: 7, ServerID: 8,
			Servers: []checkpoint.Server{{ID: "u", Number: 9}},
		}},
		Founding: &checkpoint.Founding{Slots: 4, Source: "kafka-1"},
	}
}

func TestCheckpointSurvivesEncoding(t *testing.T) {
	t.Parallel()
	for _, want := range []checkpoint.Checkpoint{
		fullCheckpoint(),
		{Pipeline: "p", Epoch: 1, ID: 1, Positions: debezium.Positions{}, Created: time.Unix(0, 0).UTC()},
	} {
		b, err := checkpoint.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := checkpoint.Unmarshal(b)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, want %+v", got, want)
		}
	}
}

// The JSON is in stores that outlive the program: it must not change by accident.
func TestEncodingIsStable(t *testing.T) {
	t.Parallel()
	const want = `{"version":1,"pipeline":"shop","epoch":3,"id":12,"created":"2026-02-03T04:05:06.789Z","rows":77,"savepoint":true,"positions":[` +
		`{"topic":"a \"quoted\" ä","partition":7,"offset":9007199254740992},{"topic":"b","partition":0,"offset":0},` +
		`{"topic":"b","partition":1,"offset":9223372036854775807,"topic_id":"00ff"}],` +
		`"transactions":[{"pipeline":"shop","epoch":3,"checkpoint":12,"worker":1}],"parts":[3],` +
		`"ahead":[{"workers":2,"worker":1,"positions":[{"topic":"b","partition":0,"offset":5,"topic_id":"00ff"}]}],` +
		`"seen":[{"source":"shop","database":"d","schema":"s","table":"t","topic":"b","partition":1,"log":"binlog","at":[12,18446744073709551615,0,0],"txn":"x",` +
		`"digests":[18446744073709551615,1],"count":3,"cursor":2,"order":5,"sent_ns":6,"ts_ms":7,"server_id":8,"servers":[{"id":"u","number":9}]}],"founding":{"slots":4,"source":"kafka-1"}}`
	got, err := checkpoint.Marshal(fullCheckpoint())
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestUnmarshalRefusesWhatItDoesNotUnderstand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ in, want string }{
		"not JSON":       {`{`, "unexpected end"},
		"no version":     {`{"pipeline":"p"}`, "version 0"},
		"later version":  {`{"version":2}`, "version 2"},
		"unknown member": {`{"version":1,"pipeline":"p","new":1}`, `"new"`},
		"no pipeline":    {`{"version":1}`, "cannot be"},
		"negative":       {`{"version":1,"pipeline":"p","positions":[{"topic":"t","partition":0,"offset":-1}]}`, "cannot be"},
		"seen nothing":   {`{"version":1,"pipeline":"p","seen":[{"source":"s","table":"t","topic":"t","digests":[],"count":0}]}`, "cannot be"},
		"seen too much":  {`{"version":1,"pipeline":"p","seen":[{"source":"s","table":"t","topic":"t","digests":[1],"count":1,"cursor":2}]}`, "cannot be"},
		"parts of none":  {`{"version":1,"pipeline":"p","parts":[1]}`, "have parts"},
		"no parts":       {`{"version":1,"pipeline":"p","transactions":[{"pipeline":"p"}],"parts":[0]}`, "have parts"},
		"no such lane":   {`{"version":1,"pipeline":"p","ahead":[{"workers":2,"worker":2,"positions":[]}]}`, "lane 2 of 2"},
		"ahead of it":    {`{"version":1,"pipeline":"p","ahead":[{"workers":2,"worker":1,"positions":[{"topic":"","partition":0,"offset":1}]}]}`, "cannot be"},
		"twice":          {`{"version":1,"pipeline":"p","positions":[{"topic":"t","partition":0,"offset":1},{"topic":"t","partition":0,"offset":2}]}`, "twice"},
	} {
		if _, err := checkpoint.Unmarshal([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}
