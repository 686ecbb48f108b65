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
		Txns: []txnsink.ID{{Pipeline: "shop", Epoch: 3, Checkpoint: 12, Worker: 1}},
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
		`"transactions":[{"pipeline":"shop","epoch":3,"checkpoint":12,"worker":1}]}`
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
		"twice":          {`{"version":1,"pipeline":"p","positions":[{"topic":"t","partition":0,"offset":1},{"topic":"t","partition":0,"offset":2}]}`, "twice"},
	} {
		if _, err := checkpoint.Unmarshal([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want an error with %q", name, err, c.want)
		}
	}
}
