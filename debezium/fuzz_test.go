package debezium_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
)

// FuzzDecode promises that no bytes make the decoder panic; that an error is a RecordError; that a decoder which has
// seen a record decodes it the same again, though by other code; and that rows hold what encoding/json reads.
func FuzzDecode(f *testing.F) {
	for _, connector := range []string{"plain", "bare", "pg", "flat"} {
		topics, err := debeziumtest.Load(filepath.Join(captures, connector))
		if err != nil {
			f.Fatal(err)
		}
		for _, topic := range slices.Sorted(maps.Keys(topics)) {
			for _, r := range topics[topic][:1] {
				f.Add(r.Key, r.Value, []byte(`{"id":1}`))
			}
		}
	}
	f.Add([]byte(`{"id":1}`), []byte(bare(`{"a\n":[1,{"b":-0.5e3}],"c":"\ud83d\udc9b"}`)), []byte(`{"at":2025-01-01}`))
	f.Fuzz(func(t *testing.T, key, value, header []byte) {
		record := debezium.Record{Key: key, Value: value, Headers: []debezium.Header{{Key: "__debezium.oldkey", Value: header}}}
		d := debezium.NewDecoder(debezium.DecoderConfig{})
		first, err := d.DecodeBatch(&debezium.Batch{Records: []debezium.Record{record}})
		if err != nil {
			var bad *debezium.RecordError
			if !errors.As(err, &bad) || len(first) != 0 {
				t.Fatalf("got %d events and error %v, want a RecordError alone", len(first), err)
			}
			return
		}
		again, err := d.DecodeBatch(&debezium.Batch{Records: []debezium.Record{record, record}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range again {
			if !reflect.DeepEqual(again[i], first[0]) {
				t.Fatalf("decoded again: got %+v, want %+v", again[i], first[0])
			}
		}
		if e := &first[0]; e.Op.Row() {
			members := read(t, value)
			_, op := members["op"].(string)
			if _, source := members["source"].(map[string]any); op && source {
				sameRow(t, e.Before, members["before"])
				sameRow(t, e.After, members["after"])
			} else if e.Before.Sent() {
				sameRow(t, e.Before, members)
			} else if e.Op != debezium.Truncate {
				sameRow(t, e.After, members)
			}
		}
	})
}

// FuzzValue promises that each value that encoding/json reads is read here, and is the same; apart from what
// encoding/json changes in silence (half surrogates, text that is not UTF-8) and objects with a repeated name.
func FuzzValue(f *testing.F) {
	for _, s := range []string{
		`0`, `-0`, `-9223372036854775808`, `18446744073709551616`, `1.50E+07`, `"\u0000\ud83d\udc9bé\/"`, `[[],{"a":null}]`, `{"a":{"b":[true]}}`, ` "x" `,
		`"` + debezium.DefaultUnavailable + `"`, `["` + debezium.DefaultUnavailable + `"]`,
	} {
		f.Add([]byte(s))
	}
	halves := regexp.MustCompile(`(?i)\\ud[89a-f]`)
	f.Fuzz(func(t *testing.T, value []byte) {
		e, err := decode("-", bare(`{"v":`+string(value)+`}`))
		if err != nil {
			if json.Valid(value) && utf8.Valid(value) && !halves.Match(value) && bytes.Count(value, []byte("[")) < 60 && bytes.Count(value, []byte("{")) < 60 &&
				!strings.Contains(err.Error(), "two members") {
				t.Fatalf("%s: %v", value, err)
			}
			return
		}
		if json.Valid(value) { // the fuzzer may close the object and open another
			sameRow(t, e.After, map[string]any{"v": parse(t, value)})
		}
	})
}

func parse(t *testing.T, b []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("encoding/json does not read what was decoded: %v", err)
	}
	return v
}

// read returns the payload of a message.
func read(t *testing.T, b []byte) map[string]any {
	t.Helper()
	m, _ := parse(t, b).(map[string]any)
	if inner, ok := m["payload"].(map[string]any); ok && len(m) == 2 {
		if s, ok := m["schema"]; ok && reflect.TypeOf(s) != reflect.TypeFor[string]() {
			return inner
		}
	}
	return m
}

func sameRow(t *testing.T, row debezium.Row, want any) {
	t.Helper()
	members, ok := want.(map[string]any)
	if ok != row.Sent() {
		t.Fatalf("got row %+v, want %v", row, want)
	}
	sent := 0
	for i := range row.Values {
		if row.Values[i].Kind == debezium.Absent {
			continue
		}
		sent++
		sameValue(t, &row.Values[i], members[row.Shape.Fields[i].Name])
	}
	if sent != len(members) {
		t.Fatalf("got %d fields %+v, want %d: %v", sent, row, len(members), members)
	}
}

func sameValue(t *testing.T, v *debezium.Value, want any) {
	t.Helper()
	same := false
	switch w := want.(type) {
	case nil:
		same = v.Kind == debezium.Null
	case bool:
		same = v.Kind == debezium.BoolValue && v.Num == 1 == w
	case json.Number:
		same = v.Kind == debezium.IntValue && strconv.FormatInt(v.Num, 10) == w.String() || v.Kind == debezium.NumberValue && v.Text == w.String()
	case string:
		same = v.Kind == debezium.StringValue && v.Text == w || v.Kind == debezium.Unavailable
	case []any:
		if v.Kind == debezium.ListValue && v.List.Names == nil && len(v.List.Values) == len(w) {
			for i := range w {
				sameValue(t, &v.List.Values[i], w[i])
			}
			return
		}
		same = v.Kind == debezium.Unavailable
	case map[string]any:
		if v.Kind == debezium.ListValue && v.List.Names != nil && len(v.List.Values) == len(w) {
			for i, name := range v.List.Names {
				sameValue(t, &v.List.Values[i], w[name])
			}
			return
		}
		same = v.Kind == debezium.Unavailable
	}
	if !same {
		t.Fatalf("got %+v, want %v", *v, want)
	}
}
