package debezium_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
)

var shopItems = debezium.Partition{Topic: "s.shop.items", ID: 3}

// decode decodes one record with a fresh Decoder. A key or value "-" is Kafka's null.
func decode(key, value string, headers ...debezium.Header) (debezium.Event, error) {
	null := func(s string) []byte {
		if s == "-" {
			return nil
		}
		return []byte(s)
	}
	events, err := debezium.NewDecoder(debezium.DecoderConfig{}).DecodeBatch(&debezium.Batch{
		Partition: shopItems,
		Records:   []debezium.Record{{Partition: shopItems, Offset: 7, Key: null(key), Value: null(value), Headers: headers}},
	})
	if err != nil {
		return debezium.Event{}, err
	}
	return events[0], nil
}

func mustDecode(t *testing.T, key, value string, headers ...debezium.Header) debezium.Event {
	t.Helper()
	e, err := decode(key, value, headers...)
	if err != nil {
		t.Fatalf("key %s, value %s: %v", key, value, err)
	}
	return e
}

const source = `"source":{"connector":"mysql","db":"shop","table":"items","snapshot":"false","ts_ms":5,"file":"b.1","pos":9,"row":2}`

// bare is a create event without a schema that has this row.
func bare(row string) string { return `{"before":null,"after":` + row + `,` + source + `,"op":"c"}` }

// wrapped is an update event with a schema that has these fields, and this payload.
func wrapped(fields, payload string) string {
	row := func(name string) string {
		return `{"type":"struct","fields":[` + fields + `],"optional":true,"name":"s.shop.items.Value","field":"` + name + `"}`
	}
	return `{"schema":{"type":"struct","fields":[` + row("before") + `,` + row("after") +
		`,{"type":"struct","fields":[],"name":"io.debezium.connector.mysql.Source","field":"source"},{"type":"string","field":"op"}],"name":"s.shop.items.Envelope"},"payload":` + payload + `}`
}

const idField = `{"type":"int32","optional":false,"field":"id"}`

func TestEventsHoldWhatTheEnvelopeSays(t *testing.T) {
	t.Parallel()
	got := mustDecode(t, `{"id":1}`, `{"before":{"id":1,"n":null},"after":{"id":1,"n":true},`+source+`,"transaction":{"id":"x","total_order":3,"data_collection_order":1},"op":"u","ts_ms":6}`)
	key := &debezium.Shape{Schemaless: true, Fields: []debezium.Field{{Name: "id"}}}
	row := &debezium.Shape{Schemaless: true, Fields: []debezium.Field{{Name: "id"}, {Name: "n"}}}
	one := debezium.Value{Kind: debezium.IntValue, Num: 1}
	want := debezium.Event{
		Op:        debezium.Update,
		Key:       debezium.Row{Shape: key, Values: []debezium.Value{one}},
		Before:    debezium.Row{Shape: row, Values: []debezium.Value{one, {Kind: debezium.Null}}},
		After:     debezium.Row{Shape: row, Values: []debezium.Value{one, {Kind: debezium.BoolValue, Num: 1}}},
		Source:    debezium.Source{Connector: "mysql", Database: "shop", Table: "items", TsMs: 5, File: "b.1", Pos: 9, RowNo: 2},
		Txn:       "x",
		Order:     3,
		SentNs:    6_000_000,
		Partition: shopItems,
		Offset:    7,
		Bytes:     got.Bytes,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got.Before.Shape != got.After.Shape {
		t.Error("rows of the same names have two shapes")
	}
}

func TestValuesAreWhatWasSent(t *testing.T) {
	t.Parallel()
	type value = debezium.Value
	text := func(s string) value { return value{Kind: debezium.StringValue, Text: s} }
	number := func(s string) value { return value{Kind: debezium.NumberValue, Text: s} }
	integer := func(n int64) value { return value{Kind: debezium.IntValue, Num: n} }
	unavailable := value{Kind: debezium.Unavailable}
	placeholder := debezium.DefaultUnavailable
	tests := []struct {
		json string
		want value
	}{
		{`0`, integer(0)},
		{`-1`, integer(-1)},
		{`9007199254740993`, integer(9007199254740993)},
		{`9223372036854775807`, integer(9223372036854775807)},
		{`-9223372036854775808`, integer(-9223372036854775808)},
		{`9223372036854775808`, number("9223372036854775808")},
		{`-9223372036854775809`, number("-9223372036854775809")},
		{`18446744073709551615`, number("18446744073709551615")},
		{`18446744073709551616`, number("18446744073709551616")},
		{`100000000000000000000`, number("100000000000000000000")},
		{`-0`, number("-0")},
		{`-0.0`, number("-0.0")},
		{`1.50`, number("1.50")},
		{`1E400`, number("1E400")},
		{`12e-05`, number("12e-05")},
		{`true`, value{Kind: debezium.BoolValue, Num: 1}},
		{`false`, value{Kind: debezium.BoolValue}},
		{`null`, value{Kind: debezium.Null}},
		{`""`, text("")},
		{`"NaN"`, text("NaN")},
		{`"-Infinity"`, text("-Infinity")},
		{`"Grüße, Сай 💛"`, text("Grüße, Сай 💛")},
		{`"a\u0000b"`, text("a\x00b")},
		{`"\"\\\/\b\f\n\r\t\u00e9\ud83d\udc9b\uABcd"`, text("\"\\/\b\f\n\r\té💛\uabcd")},
		{`"ends with a backslash \\"`, text(`ends with a backslash \`)},
		{`"` + strings.Repeat("x", 100) + `\n"`, text(strings.Repeat("x", 100) + "\n")},
		{`"` + strings.Repeat(`\u0041`, 5000) + `"`, text(strings.Repeat("A", 5000))},
		{`[]`, value{Kind: debezium.ListValue, List: &debezium.List{}}},
		{`{}`, value{Kind: debezium.ListValue, List: &debezium.List{Names: []string{}}}},
		{`[1, null , "x"]`, value{Kind: debezium.ListValue, List: &debezium.List{Values: []value{integer(1), {Kind: debezium.Null}, text("x")}}}},
		{`{"wkb":"AQ==","srid":null}`, value{Kind: debezium.ListValue, List: &debezium.List{Names: []string{"wkb", "srid"}, Values: []value{text("AQ=="), {Kind: debezium.Null}}}}},
		{`[[1],{"a":[2]}]`, value{Kind: debezium.ListValue, List: &debezium.List{Values: []value{
			{Kind: debezium.ListValue, List: &debezium.List{Values: []value{integer(1)}}},
			{Kind: debezium.ListValue, List: &debezium.List{Names: []string{"a"}, Values: []value{{Kind: debezium.ListValue, List: &debezium.List{Values: []value{integer(2)}}}}}},
		}}}},
		{`"` + placeholder + `"`, unavailable},
		{`"` + base64.StdEncoding.EncodeToString([]byte(placeholder)) + `"`, unavailable},
		{`"5f5f646562657a69756d5f756e617661696c61626c655f76616c7565"`, unavailable},
		{`["` + placeholder + `"]`, unavailable},
		{`["` + base64.StdEncoding.EncodeToString([]byte(placeholder)) + `"]`, unavailable},
		{`{"` + placeholder + `":"` + placeholder + `"}`, unavailable},
		{`[95,95,100,101,98,101,122,105,117,109,95,117,110,97,118,97,105,108,97,98,108,101,95,118,97,108,117,101]`, unavailable},
		{`"` + placeholder + `."`, text(placeholder + ".")},
	}
	for _, test := range tests {
		e := mustDecode(t, "-", bare(`{"v":`+test.json+`}`))
		if got := e.After.Values; !reflect.DeepEqual(got, []value{test.want}) {
			t.Errorf("%s: got %+v, want %+v", test.json, got, test.want)
		}
	}
}

func TestPlaceholderCanBeConfigured(t *testing.T) {
	t.Parallel()
	for option, sent := range map[string]string{"(unchanged)": "(unchanged)", "hex:c3bfc2be3f": "ÿ¾?", "hex:6162": "ab"} {
		d := debezium.NewDecoder(debezium.DecoderConfig{Unavailable: option})
		other := debezium.Value{Kind: debezium.StringValue, Text: debezium.DefaultUnavailable}
		for _, form := range unavailableForms(sent) {
			events, err := d.DecodeBatch(&debezium.Batch{Records: []debezium.Record{
				{Value: []byte(bare(`{"v":` + form + `,"w":"` + debezium.DefaultUnavailable + `"}`))},
			}})
			if err != nil {
				t.Fatal(err)
			}
			want := []debezium.Value{{Kind: debezium.Unavailable}, other}
			if got := events[0].After.Values; !reflect.DeepEqual(got, want) {
				t.Errorf("%s as %s: got %+v, want %+v", option, form, got, want)
			}
		}
	}
}

// unavailableForms are the JSON values that stand for a value which the source did not send: text, bytes in each mode of
// binary.handling.mode, arrays of these and of numbers, and a map.
func unavailableForms(placeholder string) []string {
	numbers := make([]string, len(placeholder))
	for i, b := range []byte(placeholder) {
		numbers[i] = strconv.Itoa(int(int8(b)))
	}
	forms := []string{`{"` + placeholder + `":"` + placeholder + `"}`, "[" + strings.Join(numbers, ",") + "]"}
	for _, text := range []string{
		placeholder, base64.StdEncoding.EncodeToString([]byte(placeholder)), base64.URLEncoding.EncodeToString([]byte(placeholder)), hex.EncodeToString([]byte(placeholder)),
	} {
		forms = append(forms, `"`+text+`"`, `["`+text+`"]`)
	}
	return forms
}

func TestBadRecordsAreErrorsThatSayWhy(t *testing.T) {
	t.Parallel()
	tests := []struct{ key, value, want string }{
		{"-", ``, "no JSON object"},
		{"-", `   `, "no JSON object"},
		{"-", `5`, "no JSON object"},
		{"-", `[1,2]`, "no JSON object"},
		{"-", `"text"`, "no JSON object"},
		{"-", "\x00\x00\x00\x00\x63", "set source.registry.url"},
		{"-", "\x01\x00\x00\x00\x05", "no JSON object"},
		{"-", `{"before":null,"after":{"id":7,"amt":`, `after: field "amt": the JSON ends where a value is due`},
		{"-", `{"op":"q","before":null,"after":{"id":8}}`, `its op is "q"`},
		{"-", `{"op":7,` + source + `}`, `its op is ""`},
		{"-", `{"op":"c","after":{"id":8}}`, "no source block"},
		{"-", `{"op":"c","after":null,` + source + `}`, "no row after"},
		{"-", `{}`, "neither a change event"},
		{"-", `{"ts_ms":1}`, "neither a change event"},
		{"-", bare(`{"v":1`) + `x`, `where a comma or } is due`},
		{"-", bare(`{"v":1}`) + `x`, `'x' where the end of the JSON is due`},
		{"-", bare(`{"v":01}`), "leading zero"},
		{"-", bare(`{"v":1.}`), "a digit is due"},
		{"-", bare(`{"v":.5}`), "a value is due"},
		{"-", bare(`{"v":+1}`), "a value is due"},
		{"-", bare(`{"v":NaN}`), "a value is due"},
		{"-", bare(`{"v":2025-01-01}`), "a comma or } is due"},
		{"-", bare(`{"v":nul}`), "a value is due"},
		{"-", bare(`{"v":"` + "\xff" + `"}`), "not UTF-8"},
		{"-", bare(`{"v":"` + "\xed\xa0\x80" + `"}`), "not UTF-8"},
		{"-", bare(`{"v":"\ud83d"}`), "half of a surrogate pair"},
		{"-", bare(`{"v":"\udc9b"}`), "half of a surrogate pair"},
		{"-", bare(`{"v":"\ud83d\ud83d"}`), "half of a surrogate pair"},
		{"-", bare(`{"v":"\ud83dx\udc9b"}`), "half of a surrogate pair"},
		{"-", bare(`{"v":"\x41"}`), "an escape that JSON does not know"},
		{"-", bare(`{"v":"\u12g4"}`), "an escape that JSON does not know"},
		{"-", `{"op":"c","after":{"v":1},"source":{"unread":"\x41"}}`, "an escape that JSON does not know"},
		{"-", bare("{\"v\":\"a\nb\"}"), "control character"},
		{"-", bare(`{"v":1,"v":2}`), `two fields "v"`},
		{"-", bare(`{"v":{"a":1,"a":2}}`), `two members "a"`},
		{"-", `{"before":null,"after":{"v":1},"after":{"v":2},` + source + `,"op":"c"}`, "second time"},
		{"-", `{"before":{"v":1},"before":null,"after":{"v":2},` + source + `,"op":"u"}`, `the member "before" for the second time`},
		{"-", `{"before":5,"after":{"v":2},` + source + `,"op":"u"}`, "neither an object nor null"},
		{"-", `{"op":"c","op":"d","after":{"v":1},` + source + `}`, "second time"},
		{"-", bare(`{"v":` + strings.Repeat("[", 1000) + `}`), "nested too deep"},
		{"-", bare(`{"v":` + strings.Repeat(`{"a":`, 1000) + `}`), "nested too deep"},
		{"-", `{"x":` + strings.Repeat("[", 1<<20), "nested too deep"},
		{"-", `{"op":"c","after":{"v":1},"source":{"pos":1.5}}`, "source: pos: a number that is no 64-bit integer"},
		{"-", wrapped(idField, `{"before":null,"after":{"id":1,"other":2},"source":{},"op":"u"}`), `field "other", which the message's schema does not have`},
		{"-", wrapped(idField, `{"before":null,"after":{"id":1,"id":2},"source":{},"op":"u"}`), `field "id" for the second time`},
		{"-", wrapped(idField+","+idField, `{"op":"u"}`), `two fields "id"`},
		{"-", wrapped(`{"type":"uint8","field":"id"}`, `{"op":"u"}`), `"uint8"`},
		{"-", wrapped(`{"type":"array","field":"id"}`, `{"op":"u"}`), `no type`},
		{"-", wrapped(idField, `{"before":null,"after":{"id":1},"source":{},"op":"u"}},"x":1`), "the end of the JSON is due"},
		{"-", `{"schema":{"type":"string"},"payload":"x"}`, "no JSON object"},
		{"-", `{"schema":{"type":"struct","fields":[` + idField + `],"name":"some.thing"},"payload":{"id":1}}`, `its schema is "some.thing"`},
		{`"text"`, bare(`{"v":1}`), "the key: it is no JSON object"},
		{`Struct{id=1}`, bare(`{"v":1}`), "the key: it is no JSON object"},
		{``, bare(`{"v":1}`), "the key: it is no JSON object"},
		{`{"id":1`, bare(`{"v":1}`), "the key: "},
	}
	for _, test := range tests {
		_, err := decode(test.key, test.value)
		var bad *debezium.RecordError
		if !errors.As(err, &bad) || bad.Partition != shopItems || bad.Offset != 7 {
			t.Errorf("key %s, value %.80s: got error %v, want a RecordError of the record", test.key, test.value, err)
			continue
		}
		if !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "record s.shop.items[3] offset 7: ") {
			t.Errorf("key %s, value %.80s: got error %q, want it to say %q", test.key, test.value, err, test.want)
		}
	}
}

func TestEventsBeforeABadRecordAreReturned(t *testing.T) {
	t.Parallel()
	good, bad := []byte(bare(`{"v":1}`)), []byte(`{`)
	events, err := debezium.NewDecoder(debezium.DecoderConfig{}).DecodeBatch(&debezium.Batch{
		Records: []debezium.Record{{Offset: 4, Value: good}, {Offset: 6, Value: bad}, {Offset: 7, Value: good}},
	})
	var record *debezium.RecordError
	if len(events) != 1 || events[0].Offset != 4 || !errors.As(err, &record) || record.Offset != 6 {
		t.Errorf("got %d events and error %v, want the event before offset 6 and an error for it", len(events), err)
	}
}

func TestMessagesThatChangeNoRowAreTold(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, key, value string
		want             debezium.Op
	}{
		{"tombstone", "-", "-", debezium.Tombstone},
		{"heartbeat", `{"serverName":"s"}`, `{"ts_ms":1}`, debezium.Heartbeat},
		{"begin", `{"id":"1"}`, `{"status":"BEGIN","id":"1","event_count":null,"data_collections":null,"ts_ms":1}`, debezium.Transaction},
		{"end", `{"id":"1"}`, `{"status":"END","id":"1","event_count":0,"data_collections":[],"ts_ms":1}`, debezium.Transaction},
		{"message", `{"prefix":"p"}`, `{"op":"m",` + source + `,"message":{"prefix":"p","content":"aA=="}}`, debezium.Message},
		{"schema change", `{"databaseName":"shop"}`, `{` + source + `,"ddl":"USE shop","tableChanges":[]}`, debezium.SchemaChange},
		{"truncate", "-", `{"before":null,"after":null,` + source + `,"op":"t"}`, debezium.Truncate},
	}
	for _, test := range tests {
		if got := mustDecode(t, test.key, test.value); got.Op != test.want || got.Key.Sent() != (test.key != "-") {
			t.Errorf("%s: got op %v, key sent %v; want %v", test.name, got.Op, got.Key.Sent(), test.want)
		}
	}
}

func TestWrappedMessagesAreReadInAnyForm(t *testing.T) {
	t.Parallel()
	payload := `{"before":{"id":2},"after":{},"source":{"table":"items"},"op":"u"}`
	inOrder := wrapped(idField, payload)
	cut := strings.Index(inOrder, `,"payload":`)
	schema := inOrder[:cut]
	forms := map[string]string{
		"converter's":   inOrder,
		"with space":    " \r\n" + strings.NewReplacer(":", " : ", ",", " ,\t").Replace(inOrder) + "\n",
		"payload first": `{"payload":` + payload + `,` + schema[1:] + `}`,
	}
	id := debezium.Field{Name: "id", Type: debezium.Int32}
	shape := &debezium.Shape{Name: "s.shop.items.Value", Fields: []debezium.Field{id}}
	for name, value := range forms {
		got := mustDecode(t, `{"schema":null,"payload":{"id":2}}`, value)
		want := [3]debezium.Row{
			{Shape: &debezium.Shape{Schemaless: true, Fields: []debezium.Field{{Name: "id"}}}, Values: []debezium.Value{{Kind: debezium.IntValue, Num: 2}}},
			{Shape: shape, Values: []debezium.Value{{Kind: debezium.IntValue, Num: 2}}},
			{Shape: shape, Values: []debezium.Value{{}}}, // a field that was not sent is Absent
		}
		if rows := [3]debezium.Row{got.Key, got.Before, got.After}; !reflect.DeepEqual(rows, want) {
			t.Errorf("%s: got %+v, want %+v", name, rows, want)
		}
	}
}

func TestExplicitNullIsNotTheDefault(t *testing.T) {
	t.Parallel()
	fields := `{"type":"string","optional":true,"default":"none","field":"label"},{"type":"int32","optional":true,"default":5,"field":"lvl"}`
	e := mustDecode(t, "-", wrapped(fields, `{"before":null,"after":{"label":null,"lvl":null},"source":{},"op":"u"}`))
	if want := []debezium.Value{{Kind: debezium.Null}, {Kind: debezium.Null}}; !reflect.DeepEqual(e.After.Values, want) {
		t.Errorf("got %+v, want %+v", e.After.Values, want)
	}
	if d := e.After.Shape.Fields[0].Default; d == nil || *d != `"none"` {
		t.Errorf("got default %v, want the JSON text %q", d, `"none"`)
	}
}

func TestColumnsCalledSchemaAndPayloadAreColumns(t *testing.T) {
	t.Parallel()
	e := mustDecode(t, `{"schema":"public","payload":1}`, bare(`{"schema":"public","payload":1}`))
	if len(e.Key.Values) != 2 || len(e.After.Values) != 2 {
		t.Errorf("got key %+v and row %+v, want two columns in each", e.Key, e.After)
	}
}

func TestOddMemberNamesAreKept(t *testing.T) {
	t.Parallel()
	d := debezium.NewDecoder(debezium.DecoderConfig{})
	var records []debezium.Record
	for range 3 { // the second time with a guess
		records = append(records, debezium.Record{Value: []byte(bare(`{"":1,"a\"b":2,"\u00e9t\u00e9":3,"user-name":4}`))})
	}
	events, err := d.DecodeBatch(&debezium.Batch{Records: records})
	if err != nil {
		t.Fatal(err)
	}
	want := &debezium.Shape{Schemaless: true, Fields: []debezium.Field{{Name: ""}, {Name: `a"b`}, {Name: "été"}, {Name: "user-name"}}}
	for i := range events {
		if got := events[i].After.Shape; !reflect.DeepEqual(got, want) || got != events[0].After.Shape {
			t.Errorf("got %+v, want %+v and one pointer", got, want)
		}
	}
}

func TestKeysInHeadersHaveTheKeysFields(t *testing.T) {
	t.Parallel()
	key := `{"schema":{"type":"struct","fields":[{"type":"int64","name":"io.debezium.time.MicroTimestamp","field":"at"},{"type":"int32","field":"seq"}],"name":"k"},"payload":{"at":1,"seq":2}}`
	header := func(name, value string) debezium.Header { return debezium.Header{Key: name, Value: []byte(value)} }
	e := mustDecode(t, key, bare(`{"v":1}`), header("__debezium.oldkey", `{"at":3,"seq":4}`), header("__debezium.newkey", `{"seq":6,"at":5}`), header("other", `{"at":7,"seq":8}`))
	row := func(at, seq int64) debezium.Row {
		return debezium.Row{Shape: e.Key.Shape, Values: []debezium.Value{{Kind: debezium.IntValue, Num: at}, {Kind: debezium.IntValue, Num: seq}}}
	}
	if got, want := [2]debezium.Row{e.OldKey, e.NewKey}, [2]debezium.Row{row(3, 4), row(5, 6)}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, unreadable := range []string{
		"", "null", "[]", `{}`, `{"at":2025-01-01,"seq":1}`, `{"at":"2025-01-01T00:00:00Z","seq":1}`, `{"at":1}`, `{"at":1,"seq":1,"x":1}`,
		`{"at":1,"seq":null}`, `{"at":1,"seq":1} x`, "\x00", `{"at":1,"at":1,"seq":1}`,
	} {
		if e := mustDecode(t, key, bare(`{"v":1}`), header("__debezium.oldkey", unreadable)); e.OldKey.Sent() {
			t.Errorf("%q: got old key %+v, want none", unreadable, e.OldKey)
		}
	}
}

func TestSameBytesOfASchemaAreTheSameShape(t *testing.T) {
	t.Parallel()
	d := debezium.NewDecoder(debezium.DecoderConfig{})
	shapes := map[*debezium.Shape]int{}
	for _, topic := range []string{"plain.shop.customers", "plain.shop.numbers"} {
		records := load(t, "plain")[topic]
		for i := range records { // a batch for each record
			events, err := d.DecodeBatch(&debezium.Batch{Partition: records[i].Partition, Records: records[i : i+1]})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range []debezium.Row{events[0].Before, events[0].After} {
				if r.Sent() {
					shapes[r.Shape]++
				}
			}
		}
	}
	if len(shapes) != 6 { // customers changes four times
		t.Errorf("got %d shapes %v, want 6", len(shapes), shapes)
	}
}

// TestDecoderIsSafeForConcurrentUse decodes all topics on several goroutines at once, with one Decoder.
func TestDecoderIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	d := debezium.NewDecoder(debezium.DecoderConfig{})
	var group sync.WaitGroup
	for range 4 {
		for _, connector := range []string{"plain", "bare", "pg"} {
			topics := load(t, connector)
			group.Go(func() {
				for _, records := range topics {
					if _, err := d.DecodeBatch(&debezium.Batch{Partition: records[0].Partition, Records: records}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	group.Wait()
}

func TestFormsThatAreNotReadAreErrors(t *testing.T) {
	t.Parallel()
	for connector, want := range map[string]string{"avro": "set source.registry.url", "avroh": "set source.registry.url"} {
		for topic, records := range load(t, connector) {
			for i := range records {
				events, err := debezium.NewDecoder(debezium.DecoderConfig{}).DecodeBatch(&debezium.Batch{Records: records[i : i+1]})
				switch {
				case err == nil && events[0].Op != debezium.Tombstone:
					t.Errorf("%s offset %d: no error", topic, records[i].Offset)
				case err != nil && !strings.Contains(err.Error(), want):
					t.Errorf("%s offset %d: got error %q, want it to say %q", topic, records[i].Offset, err, want)
				}
			}
		}
	}
}

func load(t *testing.T, connector string) map[string][]debezium.Record {
	t.Helper()
	topics, err := debeziumtest.Load(filepath.Join(captures, connector))
	if err != nil {
		t.Fatal(err)
	}
	return topics
}

// TestNamesWithNULAreRefused: no database has them, and a target that is asked for one fails each time. What names the table in the error can
// be stored.
func TestNamesWithNULAreRefused(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`{"before":null,"after":{"id":1},"source":{"connector":"mysql","db":"shop","table":"a\u0000b"},"op":"c"}`,
		`{"before":null,"after":{"id":1},"source":{"connector":"mysql","db":"sh\u0000op","table":"a"},"op":"c"}`,
		`{"before":null,"after":{"i\u0000d":1},"source":{"connector":"mysql","db":"shop","table":"a"},"op":"c"}`,
	} {
		at := debezium.Partition{Topic: "p.shop.t"}
		_, err := debezium.NewDecoder(debezium.DecoderConfig{}).DecodeBatch(&debezium.Batch{Partition: at, Records: []debezium.Record{{Partition: at, Value: []byte(value)}}})
		var refused *debezium.RecordError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "NUL in its name") || strings.ContainsRune(refused.Source.Table+refused.Source.Database+refused.Error(), 0) {
			t.Errorf("%s: got %v", value, err)
		}
	}
}
