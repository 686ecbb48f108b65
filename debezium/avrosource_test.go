package debezium_test

import (
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"replicator/debezium"
)

// TestAvroEventsSayWhereTheyStand: in Avro as in JSON an event says all that tells whether it was sent before.
func TestAvroEventsSayWhereTheyStand(t *testing.T) {
	t.Parallel()
	optional := func(name, kind string) string {
		return `{"name":"` + name + `","type":["null","` + kind + `"],"default":null}`
	}
	text := func(s string) string { return "\x02" + number(int64(len(s))) + s }
	some := func(n int64) string { return "\x02" + number(n) }
	const null = "\x00"
	sources := strings.Join([]string{
		`{"name":"connector","type":"string"}`, `{"name":"server_id","type":"long"}`, optional("gtid", "string"), optional("lsn", "long"), optional("sequence", "string"),
		optional("txId", "long"), optional("commit_lsn", "string"), optional("change_lsn", "string"), optional("event_serial_no", "long"), optional("commit_scn", "string"), optional("scn", "string"),
	}, ",")
	schema := `{"type":"record","name":"Envelope","namespace":"s.shop.items","fields":[` +
		`{"name":"after","type":["null",{"type":"record","name":"Value","fields":[{"name":"f","type":"int"}]}]},` +
		`{"name":"source","type":{"type":"record","name":"Source","fields":[` + sources + `]}},` +
		`{"name":"transaction","type":["null",{"type":"record","name":"block","namespace":"event","fields":[` +
		`{"name":"id","type":"string"},{"name":"total_order","type":"long"},{"name":"data_collection_order","type":"long"}]}]},` +
		`{"name":"op","type":"string"},` + optional("ts_ms", "long") + `,` + optional("ts_ns", "long") + `],"connect.name":"s.shop.items.Envelope"}`
	const row, create = "\x02\x02", "\x02c"
	source := number(1) + "x" + number(223344) + text("0-1-5") + some(-7) + text(`["24","25"]`) + some(571) + text("27:1") + text("27:2") + some(3) + text("88") + text("87")
	full := debezium.Source{
		Connector: "x", ServerID: 223344, GTID: "0-1-5", Sequence: `["24","25"]`, TxID: "571",
		CommitLSN: "27:1", ChangeLSN: "27:2", Serial: 3, CommitSCN: "88", SCN: "87",
	}
	for name, c := range map[string]struct {
		value string
		want  debezium.Event
	}{
		"all": {
			row + source + "\x02" + number(1) + "9" + number(4) + number(2) + create + some(6) + some(6_000_001),
			debezium.Event{Source: full, Order: 4, SentNs: 6_000_001},
		},
		"milliseconds only": {row + source + null + create + some(6) + null, debezium.Event{Source: full, SentNs: 6_000_000}},
		"nothing": {
			row + number(1) + "x" + number(0) + strings.Repeat(null, 9) + null + create + null + null,
			debezium.Event{Source: debezium.Source{Connector: "x"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := debezium.NewDecoder(debezium.DecoderConfig{Schemas: &askedSchemas{text: schema}})
			record := debezium.Record{Value: []byte("\x00\x00\x00\x00\x01" + c.value)}
			events, err := d.DecodeBatchContext(t.Context(), &debezium.Batch{Records: []debezium.Record{record, record}})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events { // the second one shares what the first one has
				if got := (debezium.Event{Source: e.Source, Order: e.Order, SentNs: e.SentNs}); !reflect.DeepEqual(got, c.want) {
					t.Errorf("got  %+v\nwant %+v", got, c.want)
				}
			}
		})
	}
}

// number is Avro's encoding of an integer.
func number(n int64) string { return string(binary.AppendVarint(nil, n)) }

// TestFlattenedRowsInAvroAreEvents: they are known by what JSON's are known by.
func TestFlattenedRowsInAvroAreEvents(t *testing.T) {
	t.Parallel()
	schema := func(name, fields string) string {
		return `{"type":"record","name":"` + name + `","namespace":"s.shop.items","fields":[{"name":"id","type":"int"}` + fields + `]}`
	}
	source := debezium.Source{Database: "shop", Table: "items"}
	for name, c := range map[string]struct {
		schema, value string
		want          debezium.Event // its op and source
		err           string
	}{
		"nothing but the row": {schema("Value", ""), "\x02", debezium.Event{Op: debezium.Update, Source: source}, ""},
		"a deleted row":       {schema("V", `,{"name":"__deleted","type":["null","string"]}`), "\x02\x02\x08true", debezium.Event{Op: debezium.Delete, Source: source}, ""},
		"a tombstone":         {"", "", debezium.Event{Op: debezium.Delete, Source: source}, ""},
		"a written null":      {"[" + schema("Value", "") + `,"null"]`, "\x02", debezium.Event{Op: debezium.Delete, Source: source}, ""},
		"any other record":    {schema("V", ""), "\x02", debezium.Event{}, `its schema is "s.shop.items.V"; a row that ExtractNewRecordState took the envelope of is known by`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const magic = "\x00\x00\x00\x00\x01"
			schemas := &askedSchemas{text: c.schema}
			at := debezium.Partition{Topic: "s.shop.items"}
			records := []debezium.Record{{Partition: at, Value: []byte(magic + c.value)}}
			byKey := c.schema == "" || c.schema[0] == '['
			if byKey {
				records[0].Key = []byte(magic + "\x00\x02")
			}
			if c.schema == "" { // after a row that says that the topic's are flattened
				schemas.text = schema("Value", "")
				records = []debezium.Record{
					{Partition: at, Key: []byte(magic + "\x04"), Value: []byte(magic + "\x04")},
					{Partition: at, Key: []byte(magic + "\x02")},
				}
			}
			d := debezium.NewDecoder(debezium.DecoderConfig{Schemas: schemas})
			events, err := d.DecodeBatchContext(t.Context(), &debezium.Batch{Partition: at, Records: records})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want one that says %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			e := events[len(events)-1]
			if got := (debezium.Event{Op: e.Op, Source: e.Source}); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
			row := e.After
			if e.Op == debezium.Delete {
				row = e.Before
				if byKey {
					row = e.Key
				}
			}
			if want := (debezium.Value{Kind: debezium.IntValue, Num: 1}); !row.Sent() || row.Values[0] != want {
				t.Errorf("got row %+v, want id 1", row)
			}
		})
	}
}
