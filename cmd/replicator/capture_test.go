package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
	"replicator/e2e"
)

var captured = filepath.Join("..", "..", "testdata", "debezium")

// TestCapture replays what a real connector sent, up to the first ALTER, and compares every table with the source's own
// rows, value by value, by code that shares nothing with the decoder.
func TestCapture(t *testing.T) {
	t.Parallel()
	for connector, lost := range map[string]func(table string, row map[string]*string) bool{
		"plain": plainLost, "bare": bareLost, "avro": plainLost, "avroh": plainLost,
	} {
		t.Run(connector, func(t *testing.T) {
			t.Parallel()
			r := &caseRun{url: caseDatabase(t, "capture_"+connector), config: map[string]string{"schema.types.nul": "strip"}}
			r.target = r.url
			schemas, err := debeziumtest.LoadSchemas(filepath.Join(captured, "registry", "schemas.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(schemas)
			t.Cleanup(server.Close)
			tables := produceCapture(t, connector, schemas)
			config := fmt.Sprintf("pipeline: capture-%[1]s\nsource:\n  brokers: [%[2]s]\n  topics: ['%[1]s\\.shop\\..*']\n  schema_changes: %[1]s\n"+
				"  registry: {url: '%[4]s/apis/ccompat/v7'}\n"+
				"target: {url: '%[3]s'}\ntables: [{match: 'shop\\.dbz_signal', skip: true}]\nhttp: {listen: ''}\n",
				connector, strings.Join(caseBroker(t).Addrs(), ", "), r.url, server.URL)
			if code, stderr := r.runConfig(t.Context(), t, config); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			compareCapture(t, r, tables, lost)
		})
	}
}

// produceCapture writes a connector's topics to the broker: all of its schema changes, and its rows from before the
// first ALTER. It returns the names of the tables whose topics were recorded.
func produceCapture(t *testing.T, connector string, schemas debezium.Schemas) (tables []string) {
	t.Helper()
	topics, err := debeziumtest.Load(filepath.Join(captured, connector))
	if err != nil {
		t.Fatal(err)
	}
	var alter int64
	for _, r := range topics[connector] {
		if bytes.Contains(r.Value, []byte("ADD COLUMN phone")) {
			alter = sourcePosition(t, r, schemas)
		}
	}
	if alter == 0 {
		t.Fatal("the capture has no ALTER")
	}
	for topic, records := range topics {
		if _, table, ok := strings.Cut(topic, ".shop."); ok {
			tables = append(tables, table)
		}
		if err := caseBroker(t).CreateTopic(topic, 1, nil); err != nil {
			t.Fatal(err)
		}
		var out []debezium.Record
		for _, r := range records {
			if strings.Contains(topic, ".shop.") && r.Value != nil && sourcePosition(t, r, schemas) >= alter {
				break
			}
			out = append(out, r)
		}
		if len(out) == 0 {
			continue // a table that was made later
		}
		if err := caseBroker(t).Produce(t.Context(), out...); err != nil {
			t.Fatal(err)
		}
	}
	return tables
}

func sourcePosition(t *testing.T, r debezium.Record, schemas debezium.Schemas) int64 {
	t.Helper()
	d := debezium.NewDecoder(debezium.DecoderConfig{Schemas: schemas})
	events, err := d.DecodeBatchContext(t.Context(), &debezium.Batch{Partition: r.Partition, Records: []debezium.Record{r}})
	if err != nil {
		t.Fatal(err)
	}
	return events[0].Source.Pos
}

// plainLost is what is lost before the connector's options matter.
func plainLost(table string, row map[string]*string) bool {
	switch {
	case table == "numbers" && *row["id"] == "3":
		row["yr"] = ptr("2000") // enable.time.adjuster: the connector takes the year 0000 for a two-digit one
	case table == "texts" && *row["id"] == "3":
		for _, c := range []string{"c", "v"} { // the recording has a space for NUL, which the run strips
			row[c] = ptr(strings.ReplaceAll(*row[c], " ", ""))
		}
	}
	return false
}

// bareLost changes a source row into what the connector's options let through, or says that nothing of it is left.
func bareLost(table string, row map[string]*string) bool {
	plainLost(table, row)
	switch table {
	case "customers": // time.precision.mode=connect: microseconds are cut off
		row["created_at"] = ptr((*row["created_at"])[:len("2024-02-29 23:59:59.123")])
	case "times":
		// time.precision.mode=connect: times are milliseconds within a day; others are sent as null.
		for _, c := range []string{"t0", "t3", "t6"} {
			if v := row[c]; v != nil && (strings.HasPrefix(*v, "-") || *v > "24:00:00" && *v != "24:00:00.000" || len(strings.SplitN(*v, ":", 2)[0]) > 2) {
				row[c] = nil
			}
		}
		for _, c := range []string{"t6", "dt6"} { // ... and microseconds are cut off
			if v := row[c]; v != nil {
				row[c] = ptr((*v)[:len(*v)-3] + "000")
			}
		}
	case "by_time":
		// The key's microseconds are cut off too: two rows became one, which the change of the other's key removed.
		if strings.HasPrefix(*row["at"], "2024") {
			return true
		}
		row["at"] = ptr("2025-01-01 00:00:00.000000")
	}
	return false
}

func compareCapture(t *testing.T, r *caseRun, tables []string, lost func(string, map[string]*string) bool) {
	t.Helper()
	var report []e2e.Difference
	for _, table := range captureTables(t) {
		if !slices.Contains(tables, table.Name) {
			continue
		}
		var source []e2e.Row
		for _, row := range readJSONL[map[string]*string](t, filepath.Join(captured, "source", "mysql-02", table.Name+".jsonl")) {
			if lost(table.Name, row) {
				continue
			}
			var values e2e.Row
			for _, c := range table.Columns {
				values = append(values, printed(c, row[c.Name]))
			}
			source = append(source, values)
		}
		columns := r.exec(t, fmt.Sprintf("SELECT string_agg(quote_ident(attname) || '::text', ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = '%s'::regclass AND attnum > 0", `"`+table.Name+`"`))
		var target []e2e.Row
		for _, row := range r.exec(t, fmt.Sprintf(`SET timezone TO 'UTC'; SELECT %s FROM "%s"`, *columns[0][0], table.Name)) {
			target = append(target, row)
		}
		d, err := e2e.Compare(table, source, target)
		if err != nil {
			t.Error(err)
		}
		report = append(report, d)
	}
	var text bytes.Buffer
	if err := e2e.Report(&text, report); err != nil {
		t.Fatal(err)
	}
	if slices.ContainsFunc(report, func(d e2e.Difference) bool { return !d.Equal() }) {
		t.Error(text.String())
	}
}

// printed is the value in the form that the comparison reads from MySQL's client: text in hexadecimal.
func printed(c e2e.Column, v *string) *string {
	switch c.Type {
	case "char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set", "json":
		if v != nil {
			return ptr(hex.EncodeToString([]byte(*v)))
		}
	}
	return v
}

// captureTables is the captured source's tables, as its information_schema described them.
func captureTables(t *testing.T) []e2e.Table {
	t.Helper()
	type column struct {
		Table, Name, Type string
		FullType          string `json:"full_type"`
		Key               bool
	}
	var tables []e2e.Table
	for _, c := range readJSONL[column](t, filepath.Join(captured, "source", "mysql-02", "columns.jsonl")) {
		if n := len(tables); n == 0 || tables[n-1].Name != c.Table {
			tables = append(tables, e2e.Table{Name: c.Table})
		}
		last := &tables[len(tables)-1]
		last.Columns = append(last.Columns, e2e.Column{Name: c.Name, Type: c.Type, FullType: c.FullType, Key: c.Key})
	}
	return tables
}

func readJSONL[T any](t *testing.T, file string) []T {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []T
	lines := bufio.NewScanner(bytes.NewReader(b))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var v T
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		out = append(out, v)
	}
	return out
}
