package debezium_test

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
)

// flatBatch decodes records of one topic in one batch; each is a key, a value ("-" is Kafka's null) and header pairs.
func flatBatch(t *testing.T, d *debezium.Decoder, topic string, records ...[]string) ([]debezium.Event, error) {
	t.Helper()
	b := debezium.Batch{Partition: debezium.Partition{Topic: topic}}
	for i, r := range records {
		record := debezium.Record{Partition: b.Partition, Offset: int64(i)}
		if r[0] != "-" {
			record.Key = []byte(r[0])
		}
		if r[1] != "-" {
			record.Value = []byte(r[1])
		}
		for h := 2; h < len(r); h += 2 {
			record.Headers = append(record.Headers, debezium.Header{Key: r[h], Value: []byte(r[h+1])})
		}
		b.Records = append(b.Records, record)
	}
	return d.DecodeBatch(&b)
}

// summary is an event's op, source and rows.
func summary(e debezium.Event) string {
	var b strings.Builder
	printEvent(&b, &e)
	text := strings.TrimSpace(strings.ReplaceAll(b.String(), "\n", ";"))
	if e.Unsure {
		text = "unsure " + text
	}
	return text[strings.Index(text, " ")+1:]
}

func TestFlattenedRowsAreEvents(t *testing.T) {
	t.Parallel()
	const context, prefix = "__debezium.context.connectorName", "__debezium.context.connectorLogicalName"
	for name, test := range map[string]struct {
		topic, key, value string
		headers           []string
		op                debezium.Op
		deleted           bool
		source            debezium.Source
	}{
		"rewritten delete": {
			"s.shop.t", `{"id":1}`, `{"id":1,"__deleted":"true"}`, nil, debezium.Delete, true, debezium.Source{Database: "shop", Table: "t"},
		},
		"deleted as a boolean": {
			"s.shop.t", `{"id":1}`, `{"id":1,"__deleted":true}`, nil, debezium.Delete, true, debezium.Source{Database: "shop", Table: "t"},
		},
		"delete by op": {
			"s.shop.t", `{"id":1}`, `{"id":1,"__op":"d"}`, nil, debezium.Delete, true, debezium.Source{Database: "shop", Table: "t"},
		},
		"delete by header": {
			"s.shop.t", `{"id":1}`, `{"id":1}`, []string{"__op", `{"schema":{"type":"string"},"payload":"d"}`}, debezium.Delete, true, debezium.Source{Database: "shop", Table: "t"},
		},
		"snapshot": {
			"s.shop.t", "-", `{"id":1,"__op":"r","__source_snapshot":"true"}`, nil, debezium.Read, false, debezium.Source{Database: "shop", Table: "t", Snapshot: true},
		},
		"nothing but the row": {
			"s.shop.t", `{"id":1}`, `{"id":1}`, nil, debezium.Update, false, debezium.Source{Database: "shop", Table: "t"},
		},
		"columns like an envelope's": {
			"s.shop.t", `{"id":1}`, `{"id":1,"op":"x","ts_ms":5}`, nil, debezium.Update, false, debezium.Source{Database: "shop", Table: "t"},
		},
		"source by fields": {
			"routed", "-", `{"id":1,"__op":"c","__source_connector":"mysql","__db":"shop","__table":"a.b","__source_file":"b.1","__source_pos":9,"__row":2,"__ts_ms":7,"__source_ts_ms":6}`, nil,
			debezium.Create, false,
			debezium.Source{Connector: "mysql", Database: "shop", Table: "a.b", File: "b.1", Pos: 9, RowNo: 2, TsMs: 6},
		},
		"position of PostgreSQL": {
			"s.public.t", "-", `{"id":1,"__source_sequence":"[\"1\",\"200\"]","__source_lsn":200,"__txId":7}`,
			[]string{context, "postgresql"},
			debezium.Update, false,
			debezium.Source{Connector: "postgresql", Schema: "public", Table: "t", Sequence: `["1","200"]`, LSN: 200, TxID: "7"},
		},
		"position of MySQL": {
			"s.shop.t", "-", `{"id":1,"__gtid":"a:5","__source_server_id":223344}`, nil,
			debezium.Update, false,
			debezium.Source{Database: "shop", Table: "t", GTID: "a:5", ServerID: 223344},
		},
		"position of SQL Server": {
			"s.app.dbo.t", "-", `{"id":1,"__commit_lsn":"0:1:2","__source_change_lsn":"0:1:1","__event_serial_no":1}`, nil,
			debezium.Update, false,
			debezium.Source{Database: "app", Schema: "dbo", Table: "t", CommitLSN: "0:1:2", ChangeLSN: "0:1:1", Serial: 1},
		},
		"position of Oracle": {
			"s.APP.T", "-", `{"id":1,"__commit_scn":"9","__source_scn":8}`, nil,
			debezium.Update, false,
			debezium.Source{Database: "APP", Table: "T", CommitSCN: "9", SCN: "8"},
		},
		"source by headers": {
			"my.prefix.shop.a.b", "-", `{"id":1}`,
			[]string{context, "mysql", prefix, "my.prefix", "__op", "u"},
			debezium.Update, false,
			debezium.Source{Connector: "mysql", Name: "my.prefix", Database: "shop", Table: "a.b"},
		},
		"PostgreSQL": {
			"s.public.t", "-", `{"id":1}`,
			[]string{context, "postgresql", prefix, "s", "__db", "app"},
			debezium.Update, false,
			debezium.Source{Connector: "postgresql", Name: "s", Database: "app", Schema: "public", Table: "t"},
		},
		"SQL Server": {
			"s.app.dbo.t", `{"id":1}`, `{"id":1}`, nil, debezium.Update, false, debezium.Source{Database: "app", Schema: "dbo", Table: "t"},
		},
		"a schema": {
			"s.shop.t", "-", `{"schema":{"type":"struct","fields":[` + idField + `],"name":"s.shop.t.Value"},"payload":{"id":1}}`, nil,
			debezium.Update, false,
			debezium.Source{Database: "shop", Table: "t"},
		},
	} {
		events, err := flatBatch(t, debezium.NewDecoder(debezium.DecoderConfig{}), test.topic, append([]string{test.key, test.value}, test.headers...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		e := events[0]
		if e.Op != test.op || e.Source != test.source || e.Before.Sent() != test.deleted || e.After.Sent() == test.deleted {
			t.Errorf("%s: got %s", name, summary(e))
		}
	}
}

// TestFlattenedRowsSayWhenAndInWhichRun: nothing in them says when the connector handled the event, but their record does.
func TestFlattenedRowsSayWhenAndInWhichRun(t *testing.T) {
	t.Parallel()
	at := debezium.Partition{Topic: "s.shop.t"}
	events, err := debezium.NewDecoder(debezium.DecoderConfig{}).DecodeBatchContext(t.Context(), &debezium.Batch{Partition: at, Records: []debezium.Record{
		{Partition: at, Value: []byte(`{"id":1,"__op":"c"}`), Time: time.UnixMilli(1796030704123), Headers: []debezium.Header{{Key: "__debezium.context.runId", Value: []byte("one")}}},
		{Partition: at, Value: []byte(`{"id":1,"__op":"c"}`)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []debezium.Event{{Flat: true, SentNs: 1796030704123e6, Run: "one"}, {Flat: true}} {
		if e := events[i]; e.Flat != want.Flat || e.SentNs != want.SentNs || e.Run != want.Run {
			t.Errorf("record %d: flattened is %v, sent at %d by run %q, want %v, %d, %q", i, e.Flat, e.SentNs, e.Run, want.Flat, want.SentNs, want.Run)
		}
	}
}

func TestMetadataIsNoColumn(t *testing.T) {
	t.Parallel()
	events, err := flatBatch(t, debezium.NewDecoder(debezium.DecoderConfig{}), "s.shop.t",
		[]string{`{"id":1}`, `{"id":1,"__v":2,"__op":"c","__lsn":3,"__transaction_id":"4","__transaction":{"id":"4"}}`})
	if err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, c := range debezium.TableFromEvent(&events[0]).Columns {
		columns = append(columns, c.Name)
	}
	if want := []string{"id", "__v"}; !reflect.DeepEqual(columns, want) {
		t.Errorf("got columns %q, want %q", columns, want)
	}
}

func TestMetadataIsKnownByItsPrefixes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		value   string
		headers []string
		op      debezium.Op
		columns []string
	}{
		"fields":              {`{"id":1,"m.op":"c","m.source_pos":9,"m.v":2,"__op":"d"}`, nil, debezium.Create, []string{"id", "m.v", "__op"}},
		"headers":             {`{"id":1}`, []string{"h.op", "c", "h.source_pos", "9", "__op", "d"}, debezium.Create, []string{"id"}},
		"each has its own":    {`{"id":1,"h.op":"d"}`, []string{"m.op", "d", "h.op", "c", "h.source_pos", "9"}, debezium.Create, []string{"id", "h.op"}},
		"deleted has none":    {`{"id":1,"__deleted":"true","m.source_pos":9}`, nil, debezium.Delete, nil},
		"deleted, by its op":  {`{"id":1,"m.op":"d","m.source_pos":9}`, nil, debezium.Delete, nil},
		"with a schema":       {`{"schema":{"type":"struct","fields":[` + idField + `,{"type":"string","field":"m.op"},{"type":"int64","field":"m.source_pos"}]},"payload":{"id":1,"m.op":"c","m.source_pos":9}}`, nil, debezium.Create, []string{"id"}},
		"a header alone says": {`{"other":1}`, []string{"h.source_pos", "9"}, debezium.Update, []string{"other"}},
	} {
		d := debezium.NewDecoder(debezium.DecoderConfig{FieldPrefix: "m.", HeaderPrefix: "h."})
		events, err := flatBatch(t, d, "s.shop.t", append([]string{`{"id":1}`, test.value}, test.headers...))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		e := events[0]
		var columns []string
		if e.After.Sent() {
			for _, c := range debezium.TableFromEvent(&e).Columns {
				columns = append(columns, c.Name)
			}
		}
		if e.Op != test.op || e.Source.Pos != 9 || !reflect.DeepEqual(columns, test.columns) {
			t.Errorf("%s: got %s, columns %q", name, summary(e), columns)
		}
	}
}

func TestTombstonesDeleteFlattenedRows(t *testing.T) {
	t.Parallel()
	row, gone, envelope := []string{`{"id":1}`, `{"id":1,"__op":"c"}`}, []string{`{"id":1}`, `{"id":1,"__op":"d"}`}, []string{`{"id":1}`, bare(`{"id":1}`)}
	tombstone, moved := []string{`{"id":1}`, "-"}, []string{`{"id":1}`, "-", "__debezium.newkey", `{"id":2}`}
	for name, test := range map[string]struct {
		before, records [][]string
		want            string // of the last event
		unsure          bool
	}{
		"after a row":                   {nil, [][]string{row, tombstone}, "d", false},
		"before a row":                  {nil, [][]string{tombstone, row}, "d", false},
		"after a row that is deleted":   {nil, [][]string{gone, tombstone}, "T", false},
		"alone":                         {nil, [][]string{tombstone}, "d", true},
		"alone, after rows":             {[][]string{row}, [][]string{tombstone}, "d", false},
		"alone, after envelopes":        {[][]string{envelope}, [][]string{tombstone}, "T", false},
		"before an envelope":            {nil, [][]string{tombstone, envelope}, "T", false},
		"with a header":                 {nil, [][]string{append(tombstone, "__op", "d")}, "d", false},
		"of a changed key":              {nil, [][]string{row, moved}, "d to 2", false},
		"of a changed key, said before": {[][]string{row}, [][]string{moved}, "d", false},
	} {
		d := debezium.NewDecoder(debezium.DecoderConfig{})
		if _, err := flatBatch(t, d, "s.shop.t", test.before...); err != nil {
			t.Fatal(err)
		}
		events, err := flatBatch(t, d, "s.shop.t", test.records...)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i := range events {
			if len(test.records[i]) == 2 && test.records[i][1] != "-" || i != len(events)-1 && test.records[i+1][1] == "-" {
				continue
			}
			e := events[i]
			got := e.Op.String()
			if e.NewKey.Sent() {
				got += " to " + printValue(&e.NewKey.Values[0])
			}
			if got != test.want || e.Unsure != test.unsure || e.Before.Sent() || e.After.Sent() || e.Op == debezium.Delete && e.Source.Table != "t" {
				t.Errorf("%s: got %s", name, summary(e))
			}
		}
	}
	d := debezium.NewDecoder(debezium.DecoderConfig{})
	_, err := flatBatch(t, d, "s.shop.t", []string{"-", `{"id":1,"__op":"c"}`}, []string{"-", "-"})
	if err == nil || !strings.Contains(err.Error(), "the key is null") {
		t.Errorf("a tombstone without a key: got error %v", err)
	}
}

// TestWrittenNullsAreDeletes: with delete.tombstone.handling.mode: tombstone a delete keeps the schema of its row, and JSON's converter
// writes the null of it.
func TestWrittenNullsAreDeletes(t *testing.T) {
	t.Parallel()
	const (
		schema = `{"schema":{"type":"struct","fields":[` + idField + `],"optional":true,"name":"s.shop.t.Value"},"payload":`
		key    = `{"id":1}`
		old    = `{"schema":null,"payload":null}` // what older converters make of Kafka's null
	)
	row, envelope := []string{key, schema + `{"id":1}}`}, []string{key, bare(`{"id":1}`)}
	gone, null, tombstone := []string{key, schema + `null}`}, []string{key, "null"}, []string{key, "-"}
	for name, test := range map[string]struct {
		records [][]string
		want    string // ops
	}{
		"with the row's schema":      {[][]string{row, gone}, "ud"},
		"without a schema":           {[][]string{row, null}, "ud"},
		"before any row":             {[][]string{gone, row}, "du"},
		"alone":                      {[][]string{null}, "d"},
		"before its tombstone":       {[][]string{row, gone, tombstone}, "udT"},
		"of a changed key":           {[][]string{append(gone[:2:2], "__debezium.newkey", `{"id":2}`)}, "d to 2"},
		"a tombstone after a row":    {[][]string{row, {key, old}}, "ud"},
		"a tombstone of envelopes":   {[][]string{{key, old}, envelope, {key, old}}, "TcT"},
		"a null that does not end":   {[][]string{{key, "nullx"}}, "the end of the JSON is due"},
		"a null of rows with no key": {[][]string{{"-", "null"}}, "the key is null"},
	} {
		events, err := flatBatch(t, debezium.NewDecoder(debezium.DecoderConfig{}), "s.shop.t", test.records...)
		got := ""
		for i := range events {
			got += events[i].Op.String()
			if events[i].NewKey.Sent() {
				got += " to " + printValue(&events[i].NewKey.Values[0])
			}
			if e := &events[i]; e.Unsure || e.Op == debezium.Delete && (e.Source.Table != "t" || e.Before.Sent() || !e.Key.Sent()) {
				t.Errorf("%s: got %s", name, summary(*e))
			}
		}
		if err != nil {
			got = err.Error()
		}
		if got != test.want && (err == nil || !strings.Contains(got, test.want)) {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}

func TestBadMetadataIsAnError(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`{"id":1,"__op":"q"}`:            `field "__op" is "q"`,
		`{"id":1,"__op":["c"]}`:          `field "__op" is no text`,
		`{"id":1,"__source_pos":"x"}`:    `field "__source_pos" is no integer`,
		`{"id":1,"__lsn":"0/16B3748"}`:   `field "__lsn" is no integer`,
		`{"id":1,"__source_row":1e9999}`: ``,
		`{"a":1}`:                        "add.fields",
		`{"id":1,"__op":"c","id":2}`:     `"id" for the second time`,
	} {
		_, err := flatBatch(t, debezium.NewDecoder(debezium.DecoderConfig{}), "s.shop.t", []string{`{"id":1}`, value})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want it to say %q", value, err, want)
		}
	}
}

// FuzzFlattened promises of any row and headers that decoding does not panic, that a row is decoded the same by a
// decoder that has seen it, and that a row which says so is deleted.
func FuzzFlattened(f *testing.F) {
	topics, err := debeziumtest.Load(filepath.Join(captures, "flat"))
	if err != nil {
		f.Fatal(err)
	}
	for topic, records := range topics {
		if len(records[0].Value) < 4<<10 { // a large seed is mutated slowly
			f.Add(topic, records[0].Key, records[0].Value, "__op", []byte("u"))
		}
	}
	f.Add("a.b.c.d", []byte(`{"id":1}`), []byte(`{"id":1,"__deleted":"true","__source_pos":5}`), "__db", []byte(`{"schema":null,"payload":"x"}`))
	f.Add("", []byte(`{"id":1}`), []byte(nil), "__debezium.context.connectorName", []byte("mysql"))
	f.Fuzz(func(t *testing.T, topic string, key, value []byte, name string, header []byte) {
		p := debezium.Partition{Topic: topic}
		record := debezium.Record{Partition: p, Key: key, Value: value, Headers: []debezium.Header{{Key: name, Value: header}}}
		d := debezium.NewDecoder(debezium.DecoderConfig{})
		first, err := d.DecodeBatch(&debezium.Batch{Partition: p, Records: []debezium.Record{record}})
		if err != nil {
			return
		}
		again, err := d.DecodeBatch(&debezium.Batch{Partition: p, Records: []debezium.Record{record}})
		if err != nil {
			t.Fatal(err)
		}
		if value != nil && !reflect.DeepEqual(again, first) {
			t.Fatalf("decoded again: got %+v, want %+v", again, first)
		}
		e := &first[0]
		if !e.After.Sent() {
			return
		}
		for i := range e.After.Shape.Fields {
			v := &e.After.Values[i]
			if e.After.Shape.Fields[i].Meta && e.After.Shape.Fields[i].Name == "__deleted" && (v.Text == "true" || v.Kind == debezium.BoolValue && v.Num == 1) {
				t.Fatalf("a deleted row is an event of op %v", e.Op)
			}
		}
	})
}
