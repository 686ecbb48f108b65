package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
	"replicator/e2e"
	"replicator/sqlgen"
)

var captured = filepath.Join("..", "..", "testdata", "debezium")

// capture is a recorded connector of the MySQL source, and how a run of its topics is to be judged.
type capture struct {
	lost   func(table string, row map[string]*string) bool
	config map[string]string
	setup  string
	skip   string // tables
	only   string // tables that were recorded, if not all
}

var captures = map[string]capture{
	"plain": {lost: plainLost, skip: "dbz_signal"},
	"bare":  {lost: bareLost, skip: "dbz_signal"},
	"loose": {lost: looseLost, config: map[string]string{"source.binary": "hex"}, setup: looseNumbers, skip: "dbz_signal"},
	// Of a flattened update there is no row before: in a table without a key nothing tells which row it changed.
	"flat":  {lost: plainLost, skip: "(dbz_signal|audit_log)"},
	"avro":  {lost: plainLost, skip: "dbz_signal"},
	"avroh": {lost: plainLost, skip: "dbz_signal", only: "customers numbers orders"},
	// "proto" is not exact, and refused (TestCaptureOfNullsThatAreZeros).
	"proto2":    {lost: plainLost, skip: "dbz_signal"},
	"protow":    {lost: protowLost, skip: "dbz_signal", only: "by_time customers numbers orders times"},
	"protoflat": {lost: plainLost, skip: "(dbz_signal|audit_log)", only: "customers orders others"},
}

// TestCapture replays what a real connector sent, up to the first ALTER, and compares every table with the source's own
// rows, value by value, by code that shares nothing with the decoder.
func TestCapture(t *testing.T) {
	t.Parallel()
	for connector, c := range captures {
		t.Run(connector, func(t *testing.T) {
			t.Parallel()
			r := &caseRun{url: caseDatabase(t, "capture_"+connector), config: map[string]string{"schema.types.nul": "strip", "schema.evolve": "ignore"}} // the tables as they were before 03-ddl.sql
			maps.Copy(r.config, c.config)
			r.target = r.url
			if c.setup != "" {
				r.exec(t, c.setup)
			}
			schemas := captureSchemas(t, connector)
			server := httptest.NewServer(schemas)
			t.Cleanup(server.Close)
			produceCapture(t, connector, "", schemas, nil)
			config := fmt.Sprintf("pipeline: capture-%[1]s\nsource:\n  brokers: [%[2]s]\n  topics: ['%[1]s\\.shop\\..*']\n  schema_changes: %[1]s\n"+
				"  registry: {url: '%[5]s'}\n"+
				"target: {url: '%[3]s'}\ntables: [{match: 'shop\\.%[4]s', skip: true}]\nhttp: {listen: ''}\n",
				connector, strings.Join(caseBroker(t).Addrs(), ", "), r.url, c.skip, server.URL+registryPath(connector))
			if code, stderr := r.runConfig(t.Context(), t, config); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			compareCapture(t, r, "mysql-02", c.skip, c.only, c.lost)
		})
	}
}

// recordedRegistry is a registry, and the handler of its API.
type recordedRegistry interface {
	debezium.Schemas
	http.Handler
}

// captureSchemas is the registry that a connector wrote to.
func captureSchemas(t *testing.T, connector string) recordedRegistry {
	t.Helper()
	if isProtobuf(connector) {
		schemas, err := debeziumtest.LoadConfluent(filepath.Join(captured, "registry", "protobuf.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		return schemas
	}
	schemas, err := debeziumtest.LoadSchemas(filepath.Join(captured, "registry", "schemas.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return schemas
}

func isProtobuf(connector string) bool { return strings.HasPrefix(connector, "proto") }

// registryPath is where a registry's API begins: Apicurio's, or Confluent's.
func registryPath(connector string) string {
	if isProtobuf(connector) {
		return ""
	}
	return "/apis/ccompat/v7"
}

// TestCaptureOfARestartingConnector is TestCapture for a connector that dies after every change and sends the last ones
// again. In tables without a key it shows whether a repetition was applied.
func TestCaptureOfARestartingConnector(t *testing.T) {
	t.Parallel()
	schemas := captureSchemas(t, "avro")
	server := httptest.NewServer(schemas)
	t.Cleanup(server.Close)
	for _, connector := range []string{"plain", "avro"} {
		produceCapture(t, connector, "again", schemas, resent)
		for _, rows := range []string{"100000", "1"} {
			t.Run(connector+" rows="+rows, func(t *testing.T) {
				t.Parallel()
				name := "again_" + connector + "_" + rows
				r := &caseRun{url: caseDatabase(t, name), config: map[string]string{"schema.types.nul": "strip", "schema.evolve": "ignore", "checkpoint.rows": rows}}
				config := fmt.Sprintf("pipeline: %[1]s\nsource:\n  brokers: [%[2]s]\n  topics: ['again-%[4]s\\.shop\\..*']\n  schema_changes: again-%[4]s\n"+
					"  registry: {url: '%[5]s/apis/ccompat/v7'}\n"+
					"target: {url: '%[3]s'}\ntables: [{match: 'shop\\.dbz_signal', skip: true}]\nhttp: {listen: ''}\n",
					name, strings.Join(caseBroker(t).Addrs(), ", "), r.url, connector, server.URL)
				if code, stderr := r.runConfig(t.Context(), t, config); code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
				compareCapture(t, r, "mysql-02", "dbz_signal", "", plainLost)
			})
		}
	}
}

// produceCapture writes a connector's topics to the broker: all of its schema changes, and its rows from before the
// first ALTER. The topics are called by the recorded names, after name and a dash if it is not empty. resend, if not nil,
// turns a topic's rows into what a connector sends that restarts on the way.
func produceCapture(t *testing.T, connector, name string, schemas debezium.Schemas, resend func(*testing.T, []debezium.Record, debezium.Schemas) []debezium.Record) {
	t.Helper()
	topics, err := debeziumtest.Load(filepath.Join(captured, connector))
	if err != nil {
		t.Fatal(err)
	}
	alter := firstAlter(t, topics[connector], schemas)
	for topic, records := range topics {
		rows := strings.Contains(topic, ".shop.")
		if name != "" {
			topic = name + "-" + topic
		}
		if err := caseBroker(t).CreateTopic(topic, 1, nil); err != nil {
			t.Fatal(err)
		}
		var out []debezium.Record
		for _, r := range records {
			if rows && r.Value != nil && captureEvent(t, r, schemas).Source.Pos >= alter {
				break
			}
			r.Partition.Topic = topic
			out = append(out, r)
		}
		if rows && resend != nil {
			out = resend(t, out, schemas)
		}
		for part := range slices.Chunk(out, 3) { // a batch has a greatest size
			if err := caseBroker(t).Produce(t.Context(), part...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// firstAlter is the source position of the first ALTER.
func firstAlter(t *testing.T, changes []debezium.Record, schemas debezium.Schemas) int64 {
	t.Helper()
	for _, r := range changes {
		if bytes.Contains(r.Value, []byte("ADD COLUMN phone")) {
			return captureEvent(t, r, schemas).Source.Pos
		}
	}
	t.Fatal("the capture has no ALTER")
	return 0
}

// resent is what a connector sends that dies after every record that follows its snapshot, and goes back by up to three
// records each time.
func resent(t *testing.T, records []debezium.Record, schemas debezium.Schemas) []debezium.Record {
	t.Helper()
	var out []debezium.Record
	first := 0
	for i, r := range records {
		out = append(out, r)
		if captureEvent(t, r, schemas).Op == debezium.Read {
			first = i + 1
			continue
		}
		out = append(out, records[max(first, i-2):i+1]...)
	}
	return out
}

func captureEvent(t *testing.T, r debezium.Record, schemas debezium.Schemas) debezium.Event {
	t.Helper()
	d := debezium.NewDecoder(debezium.DecoderConfig{Schemas: schemas})
	events, err := d.DecodeBatchContext(t.Context(), &debezium.Batch{Partition: r.Partition, Records: []debezium.Record{r}})
	if err != nil {
		t.Fatal(err)
	}
	return events[0]
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

// protowLost is bareLost for the Protobuf converter.
func protowLost(table string, row map[string]*string) bool {
	lost := bareLost(table, row)
	if t := row["t0"]; table == "times" && t != nil && *t == "24:00:00" {
		row["t0"] = ptr("00:00:00") // google.type.TimeOfDay, as the converter writes it
	}
	return lost
}

// looseNumbers has wider decimals than the source: of a DECIMAL(20,0) the connector can send a double with 21 digits.
const looseNumbers = `CREATE TABLE numbers (id int PRIMARY KEY, ti smallint, tiu smallint, si smallint, siu int, mi int, miu int, i int, iu bigint,
	bi bigint, biu numeric(20,0), f real, d double precision, dec_small numeric(5,2), dec_big numeric(66,30), dec_int numeric(21,0), bo smallint,
	b1 boolean, b9 bit(9), b64 bit(64), yr smallint)`

// looseLost is bareLost for the options of the connector loose.
func looseLost(table string, row map[string]*string) bool {
	plainLost(table, row)
	switch table {
	case "numbers": // decimal.handling.mode=double: 16 digits are left
		for column, sent := range map[string]string{"dec_big": "100000000000000000000000000000000000." + strings.Repeat("0", 30), "dec_int": "100000000000000000000"} {
			if v := row[column]; v != nil && strings.HasPrefix(*v, "-") {
				row[column] = ptr("-" + sent)
			} else if v != nil && strings.HasPrefix(*v, "9") {
				row[column] = ptr(sent)
			}
		}
	case "times": // time.precision.mode=isostring: a time outside a day is sent as null, and 24:00:00 as 00:00:00
		for _, c := range []string{"t0", "t3", "t6"} {
			switch v := row[c]; {
			case v != nil && *v == "24:00:00":
				row[c] = ptr("00:00:00")
			case v != nil && !strings.HasPrefix(*v, "23:"):
				row[c] = nil
			}
		}
	}
	return false
}

// compareCapture compares the target with the source as it was at a time, called like the folder.
func compareCapture(t *testing.T, r *caseRun, at, skip, only string, lost func(string, map[string]*string) bool) {
	t.Helper()
	var report []e2e.Difference
	for _, table := range captureTables(t, at) {
		if strings.Contains(skip, table.Name) || only != "" && !strings.Contains(only, table.Name) {
			continue
		}
		var source []e2e.Row
		for _, row := range readJSONL[map[string]*string](t, filepath.Join(captured, "source", at, table.Name+".jsonl")) {
			if lost(table.Name, row) {
				continue
			}
			var values e2e.Row
			for _, c := range table.Columns {
				values = append(values, printed(c, row[c.Name]))
			}
			source = append(source, values)
		}
		if isMySQL(r.url) {
			table.Written = mysqlWritten
		}
		d, err := e2e.Compare(table, source, r.captured(t, table))
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

// captured reads the target's rows of a table.
func (r *caseRun) captured(t *testing.T, table e2e.Table) (rows []e2e.Row) {
	t.Helper()
	if isMySQL(r.url) {
		return r.capturedMySQL(t, table)
	}
	var columns []string
	for _, c := range table.Columns {
		name := sqlgen.Postgres{}.Quote(sqlgen.Postgres{}.ShortName(c.Name))
		if c.Type == "set" && r.config["schema.types.enum"] == "enum" {
			name = "array_to_string(" + name + ", ',')"
		}
		columns = append(columns, name+"::text")
	}
	for _, row := range r.exec(t, fmt.Sprintf(`SET timezone TO 'UTC'; SELECT %s FROM "%s"`, strings.Join(columns, ", "), table.Name)) {
		rows = append(rows, row)
	}
	return rows
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
func captureTables(t *testing.T, at string) []e2e.Table {
	t.Helper()
	type column struct {
		Table, Name, Type string
		FullType          string `json:"full_type"`
		Key               bool
	}
	var tables []e2e.Table
	for _, c := range readJSONL[column](t, filepath.Join(captured, "source", at, "columns.jsonl")) {
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
