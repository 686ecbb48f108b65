package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
)

var update = flag.Bool("update", false, "write docs/types.md anew")

// typeRow is one line of docs/types.md: a column of a source, how a connector sends it, and one value.
type typeRow struct {
	source string // the type at the source, and the connector's option where it matters
	schema string // of the field, in JSON
	value  string // in JSON
	change string // members of the column in a schema-change record; empty: the event alone tells
}

// typeSection is the rows of one kind of source: one table of it, in one event.
type typeSection struct {
	title, connector string
	rows             []typeRow
}

// TestTypesAreDocumentedAsTheyArrive sends one event with a column of every type of every source through the command,
// into a table that it creates, and writes what became of it: docs/types.md is what the code does.
func TestTypesAreDocumentedAsTheyArrive(t *testing.T) {
	t.Parallel()
	var doc bytes.Buffer
	doc.WriteString(typesHead)
	for _, s := range typeSections {
		fmt.Fprintf(&doc, "\n## %s\n\n| at the source | sent as | for example | column created | holds |\n|---|---|---|---|---|\n", s.title)
		arrived, stderr := arrivedTypes(t, "types_"+s.connector, "", s, nil)
		if n := strings.Count(stderr, "the target has no "); s.connector == "mysql" && n != 3 || s.connector == "postgresql" && n != 4 {
			t.Errorf("%s: the log says of %d columns that the target lacks an extension, want the spatial ones and vectors:\n%s", s.title, n, stderr)
		}
		for i, got := range arrived {
			r := s.rows[i]
			fmt.Fprintf(&doc, "| %s | %s | `%s` | `%s` | `%s` |\n", r.source, sentAs(t, r.schema), cell(r.value), got[0], cell(got[1]))
		}
	}
	doc.WriteString("\n" + enumsHead + "| at the source | sent as | for example | column created | holds |\n|---|---|---|---|---|\n")
	for _, s := range enumSections() {
		arrived, _ := arrivedTypes(t, "types_enum_"+s.connector, "", s, map[string]string{"schema.types.enum": "enum"})
		for i, got := range arrived {
			r := s.rows[i]
			fmt.Fprintf(&doc, "| %s | %s | `%s` | `%s` | `%s` |\n", r.source, sentAs(t, r.schema), cell(r.value), got[0], cell(got[1]))
		}
	}
	name := filepath.Join("..", "..", "docs", "types.md")
	if *update {
		if err := os.WriteFile(name, doc.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if doc.String() != string(want) {
		t.Errorf("%s differs from what the code does (go test -update writes it):\n%s", name, doc.String())
	}
}

// TestExtensionsTypesAreUsed sends the types of PostGIS and pgvector into a target that has types of their names.
func TestExtensionsTypesAreUsed(t *testing.T) {
	t.Parallel()
	const setup = `CREATE SCHEMA gis; CREATE DOMAIN gis.geometry AS text; CREATE DOMAIN gis.geography AS text; CREATE DOMAIN vector AS text;
CREATE DOMAIN gis.vector AS bytea; CREATE TABLE geometry (id int)`
	var s typeSection
	for _, r := range typeSections[1].rows {
		if strings.Contains(r.source, "Post") || strings.Contains(r.source, "vector (") {
			s.rows = append(s.rows, r)
		}
	}
	s.connector = "postgresql"
	got, stderr := arrivedTypes(t, "types_of_extensions", setup, s, nil)
	want := [][2]string{
		{"gis.geometry", "0101000020e6100000000000000000f03f0000000000000040"},
		{"gis.geography", "0101000020e6100000000000000000f03f0000000000000040"},
		{"vector", "[0.1,-2.5]"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if strings.Contains(stderr, "the target has no ") {
		t.Errorf("the log misses an extension:\n%s", stderr)
	}
}

// enumSections are the rows of typeSections that schema.types.enum is about.
func enumSections() []typeSection {
	var out []typeSection
	for _, s := range typeSections {
		list := s.rows
		s.rows = nil
		for _, r := range list {
			if strings.Contains(r.schema, "io.debezium.data.Enum") {
				s.rows = append(s.rows, r)
			}
		}
		if len(s.rows) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// arrivedTypes returns the type and the value of each row's column in the target, a new database with setup, and the log.
func arrivedTypes(t *testing.T, name, setup string, s typeSection, set map[string]string) ([][2]string, string) {
	t.Helper()
	r := &caseRun{url: caseDatabase(t, name), config: map[string]string{}}
	maps.Copy(r.config, set)
	if setup != "" {
		r.exec(t, setup)
	}
	var fields, values, changes []string
	for i, row := range s.rows {
		fields = append(fields, fmt.Sprintf(`%s,"optional":true,"field":"c%d"}`, strings.TrimSuffix(row.schema, "}"), i))
		values = append(values, fmt.Sprintf(`"c%d":%s`, i, row.value))
		if row.change != "" {
			changes = append(changes, fmt.Sprintf(`{"name":"c%d","optional":true,%s}`, i, row.change))
		}
	}
	source := fmt.Sprintf(`"source":{"connector":%q,"name":%q,"db":"d","schema":%s,"table":"t","ts_ms":1,"file":"b.1","pos":4}`,
		s.connector, name, map[bool]string{true: "null", false: `"s"`}[s.connector == "mysql"])
	value := fmt.Sprintf(`{"schema":{"type":"struct","fields":[{"type":"struct","fields":[%s],"optional":true,"name":"t.Value","field":"after"},`+
		`{"type":"struct","fields":[],"field":"source"},{"type":"string","field":"op"}],"name":"t.Envelope"},"payload":{"before":null,"after":{%s},%s,"op":"c"}}`,
		strings.Join(fields, ","), strings.Join(values, ","), source)
	topics := map[string]string{name + ".d.t": value}
	if len(changes) > 0 {
		topics[name] = fmt.Sprintf(`{%s,"databaseName":"d","ddl":"CREATE TABLE t","tableChanges":[{"type":"CREATE","id":"\"d\".\"t\"","table":{"primaryKeyColumnNames":[],"columns":[%s]}}]}`,
			source, strings.Join(changes, ","))
		r.config["source.schema_changes"] = name
	}
	for topic, v := range topics {
		if err := caseBroker(t).CreateTopic(topic, 1, nil); err != nil {
			t.Fatal(err)
		}
		if err := caseBroker(t).Produce(t.Context(), debezium.Record{Partition: debezium.Partition{Topic: topic}, Value: []byte(v)}); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf("pipeline: %s\nsource: {brokers: [%s], topics: ['%s\\.d\\.t']}\ntarget: {url: '%s'}\nhttp: {listen: ''}\n",
		name, strings.Join(caseBroker(t).Addrs(), ", "), name, r.url)
	code, stderr := r.runConfig(t.Context(), t, config)
	if code != 0 {
		t.Fatalf("%s: exit code %d:\n%s", s.title, code, stderr)
	}
	types := r.exec(t, "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 't'::regclass AND attnum > 0 ORDER BY attnum")
	texts := make([]string, len(types))
	for i := range types {
		texts[i] = *types[i][0] + "::text"
	}
	stored := r.exec(t, "SET timezone TO 'UTC'; SELECT "+strings.Join(texts, ", ")+" FROM t")
	if len(types) != len(s.rows) || len(stored) != 1 {
		t.Fatalf("%s: %d columns and %d rows arrived, want %d and 1", s.title, len(types), len(stored), len(s.rows))
	}
	out := make([][2]string, len(types))
	for i := range types {
		out[i][0] = *types[i][1]
		if v := stored[0][i]; v != nil {
			out[i][1] = *v
		} else {
			t.Errorf("%s: %s arrived as NULL", s.title, s.rows[i].source)
		}
	}
	return out, stderr
}

// sentAs names a field's type for the document: Kafka Connect's, and the semantic name.
func sentAs(t *testing.T, fieldSchema string) string {
	t.Helper()
	var f struct {
		Type, Name    string
		Items, Values json.RawMessage
	}
	if err := json.Unmarshal([]byte(fieldSchema), &f); err != nil {
		t.Fatalf("%s: %v", fieldSchema, err)
	}
	switch {
	case f.Name != "":
		return f.Type + " `" + f.Name + "`"
	case f.Items != nil:
		return "array of " + sentAs(t, string(f.Items))
	case f.Values != nil:
		return "map of " + sentAs(t, string(f.Values))
	}
	return f.Type
}

const enumsHead = `## Enum types

With ` + "`schema.types.enum: enum`" + ` a column of ENUM gets an enum type of its own, called by its table and column (here ` + "`t`" + ` and ` + "`c0`" + ` and so on), and a
SET gets an array; [schema changes](schema-changes.md#enum-types-on-postgresql) says how they follow the source's. A target of MySQL or MariaDB has
the source's own types whatever the option says.

`

// cell keeps a text within one cell of a table.
func cell(s string) string { return strings.ReplaceAll(s, "|", `\|`) }

const typesHead = `# Types: from Debezium to PostgreSQL

Written by ` + "`make golden`" + ` from one event of each type that a test sends through the replicator into a table which it creates.
The type of a column is taken from the best witness: the schema-change topic (MySQL, MariaDB; ` + "`source.schema_changes`" + `), the
parameters ` + "`__debezium.source.column.*`" + ` that the connector's option ` + "`datatype.propagate.source.type`" + ` adds, and the event's own
schema. A table that you create yourself may have other types: a value that one cannot hold without loss stops the pipeline
with an error that names table, column, topic, partition, offset and key.

- Times: PostgreSQL holds microseconds. Nanoseconds are cut off towards the past, in keys and values alike; the log counts such
  values by column. A column with fewer digits, as in ` + "`timestamp(3)`" + `, refuses a value with more.
- Protobuf has the types of a JSON message without a schema: ` + "`docs/protobuf.md`" + `.
- Integers into a boolean column are true unless they are 0; booleans into an integer column are 1 and 0.
- A name of a semantic type that is not known here is passed over, and its primitive type counts; the log says so once for
  each column.
- Spatial types and vectors become those of PostGIS and pgvector where the target has them when the replicator starts: geometry,
  geography, and vector, of at most 16000 numbers. The examples are of a target without them.
- Bytes that come as text (` + "`binary.handling.mode`" + ` base64, base64-url-safe, hex) are decoded as ` + "`source.binary`" + ` says.
- In place of a value that the source did not send comes ` + "`__debezium_unavailable_value`" + `, in a form for every type. The stored
  value stays.
`
