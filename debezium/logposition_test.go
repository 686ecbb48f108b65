package debezium_test

import (
	"fmt"
	"path/filepath"
	"reflect"
	"testing"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
)

func sourceOf(t *testing.T, block string) debezium.Source {
	t.Helper()
	return mustDecode(t, `{"id":1}`, `{"before":null,"after":{"id":1},"source":`+block+`,"op":"c"}`).Source
}

func TestPositionIsReadFromTheSourceBlock(t *testing.T) {
	t.Parallel()
	for block, want := range map[string]debezium.LogPosition{
		`{"connector":"mysql","server_id":7,"gtid":"u:5","file":"mysql.bin.000012","pos":34,"row":2}`:                                 {Log: "mysql.bin", At: [4]uint64{12, 34}},
		`{"connector":"mariadb","file":"binlog.1000000","pos":4,"row":0}`:                                                             {Log: "binlog", At: [4]uint64{1000000, 4}},
		`{"connector":"postgresql","txId":555,"lsn":24023128,"sequence":"[\"24023100\",\"24023128\"]"}`:                               {Log: "wal", At: [4]uint64{24023100, 24023128}, Txn: "555"},
		`{"connector":"postgresql","txId":null,"lsn":24023128,"sequence":"[null,\"24023128\"]"}`:                                      {Log: "wal", At: [4]uint64{0, 24023128}},
		`{"connector":"sqlserver","change_lsn":"00000027:00000758:0003","commit_lsn":"00000027:00000758:0005","event_serial_no":"2"}`: {Log: "sqlserver", At: [4]uint64{0x2700000758, 5, 0x2700000758, 3}},
		`{"connector":"oracle","txId":"6.28.807","scn":"2122185","commit_scn":"2122190"}`:                                             {Log: "redo", At: [4]uint64{2122190, 2122185}, Txn: "6.28.807"},

		`{"connector":"mysql","file":"","pos":0}`:                                                         {},
		`{"connector":"mysql","file":"binlog.","pos":4}`:                                                  {},
		`{"connector":"mysql","file":".000001","pos":4}`:                                                  {},
		`{"connector":"postgresql","lsn":24023128}`:                                                       {},
		`{"connector":"postgresql","sequence":"[\"a\",\"b\"]"}`:                                           {},
		`{"connector":"sqlserver","change_lsn":"27:758:3","commit_lsn":"00000027:00000758:0005"}`:         {},
		`{"connector":"oracle","txId":"6.28.807","scn":"2122185","commit_scn":null}`:                      {},
		`{"connector":"mongodb","ord":31}`:                                                                {},
		`{"connector":"mysql","server_id":"x","gtid":{"a":[1]},"file":"b.1","pos":4,"lsn":1.5,"txId":[]}`: {Log: "b", At: [4]uint64{1, 4}},
	} {
		s := sourceOf(t, block)
		got, ok := s.Position()
		if ok != (want.Log != "") {
			t.Errorf("%s: reports %v", block, ok)
		}
		if ok && got != want {
			t.Errorf("%s: got %+v, want %+v", block, got, want)
		}
	}
}

func TestPositionsAreOrderedAsTheirSourceWroteThem(t *testing.T) {
	t.Parallel()
	type at = [4]uint64
	for _, c := range []struct {
		what string
		a, b debezium.LogPosition
		want string
	}{
		{"offsets", debezium.LogPosition{Log: "b", At: at{1, 9}}, debezium.LogPosition{Log: "b", At: at{1, 10}}, "-1 true"},
		{"files by number", debezium.LogPosition{Log: "b", At: at{999999, 9}}, debezium.LogPosition{Log: "b", At: at{1000000, 4}}, "-1 true"},
		{"other binlogs", debezium.LogPosition{Log: "b", At: at{1, 9}}, debezium.LogPosition{Log: "c", At: at{1, 10}}, "0 false"},
		{"commits before LSNs", debezium.LogPosition{Log: "wal", At: at{6, 90}, Txn: "1"}, debezium.LogPosition{Log: "wal", At: at{7, 80}, Txn: "2"}, "-1 true"},
		{"one transaction's LSNs", debezium.LogPosition{Log: "wal", At: at{0, 90}, Txn: "1"}, debezium.LogPosition{Log: "wal", At: at{7, 80}, Txn: "1"}, "1 true"},
		{"transactions of one SCN", debezium.LogPosition{Log: "redo", At: at{6, 90}, Txn: "1"}, debezium.LogPosition{Log: "redo", At: at{6, 80}, Txn: "2"}, "0 false"},
		{"one transaction's SCNs", debezium.LogPosition{Log: "redo", At: at{6, 90}, Txn: "1"}, debezium.LogPosition{Log: "redo", At: at{6, 80}, Txn: "1"}, "1 true"},
		{"equal", debezium.LogPosition{Log: "b", At: at{1, 9}}, debezium.LogPosition{Log: "b", At: at{1, 9}}, "0 true"},
	} {
		n, ok := c.a.Compare(c.b)
		if got := fmt.Sprint(n, ok); got != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
}

// TestRecordedChangesStandInOrder holds the recordings of three connectors to what Position promises: within a topic no
// change stands before the one that came before it, and those that stand at one place have different digests.
func TestRecordedChangesStandInOrder(t *testing.T) {
	t.Parallel()
	for _, connector := range []string{"plain", "bare", "pg"} {
		topics, err := debeziumtest.Load(filepath.Join(captures, connector))
		if err != nil {
			t.Fatal(err)
		}
		changes := 0
		for topic, records := range topics {
			events, err := debezium.NewDecoder(debezium.DecoderConfig{}).DecodeBatch(&debezium.Batch{Partition: records[0].Partition, Records: records})
			if err != nil {
				t.Fatal(err)
			}
			var last debezium.LogPosition
			there := map[uint64]bool{}
			for i := range events {
				e := &events[i]
				if !e.Op.Row() || e.Source.Snapshot {
					continue
				}
				at, ok := e.Source.Position()
				if !ok {
					t.Fatalf("%s offset %d: no position in %+v", topic, e.Offset, e.Source)
				}
				if c, known := at.Compare(last); last.Log != "" && (!known || c < 0) {
					t.Errorf("%s offset %d: %+v comes after %+v", topic, e.Offset, at, last)
				} else if c != 0 || last.Log == "" {
					clear(there)
				}
				if d := debezium.Digest(e); there[d] {
					t.Errorf("%s offset %d: its digest is that of another change at its position", topic, e.Offset)
				} else {
					there[d] = true
				}
				last = at
				changes++
			}
		}
		if changes < 10 {
			t.Errorf("%s: %d changes", connector, changes)
		}
	}
}

func TestGTIDsAreSplitAtTheirNumber(t *testing.T) {
	t.Parallel()
	type split struct {
		server string
		number uint64
		ok     bool
	}
	for gtid, want := range map[string]split{
		"fc0ed9de-ec6a-11f1-abc5-02fc00000001:54":     {"fc0ed9de-ec6a-11f1-abc5-02fc00000001", 54, true},
		"fc0ed9de-ec6a-11f1-abc5-02fc00000001:tag:54": {"fc0ed9de-ec6a-11f1-abc5-02fc00000001:tag", 54, true},
		"0-1-270": {"0-1", 270, true},
		"":        {},
		":1":      {},
	} {
		var got split
		if got.server, got.number, got.ok = debezium.GTIDServer(gtid); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v, want %+v", gtid, got, want)
		}
	}
}

func TestDigestTellsChangesApart(t *testing.T) {
	t.Parallel()
	seen := map[uint64]string{}
	for _, row := range []string{`{}`, `{"a":1}`, `{"a":2}`, `{"a":"1"}`, `{"a":true}`, `{"a":null}`, `{"a":1.5}`, `{"a":"12345678"}`, `{"a":"12345678","b":""}`, `{"a":"123456789"}`, `{"a":["x","y"]}`, `{"a":{"x":"y"}}`, `{"a":"","b":"12345678"}`} {
		for _, op := range []string{"c", "u"} {
			for _, number := range []string{"0", "1"} {
				value := `{"before":null,"after":` + row + `,"source":{"connector":"mysql","file":"b.1","pos":4,"row":` + number + `},"op":"` + op + `"}`
				e := mustDecode(t, `{"id":1}`, value)
				again := mustDecode(t, `{"id":1}`, value)
				d := debezium.Digest(&e)
				if d != debezium.Digest(&again) {
					t.Errorf("%s: two digests", value)
				}
				if other := seen[d]; other != "" {
					t.Errorf("%s and %s have one digest", value, other)
				}
				seen[d] = value
			}
		}
	}
}

func BenchmarkDigest(b *testing.B) {
	batch, _ := wideBatch(b, "plain", 16, 1)
	events, err := debezium.NewDecoder(debezium.DecoderConfig{}).DecodeBatch(batch)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		debezium.Digest(&events[0])
	}
}
