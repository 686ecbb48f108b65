package main

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator/debezium/debeziumtest"
)

// ddlCapture is a run of a whole recording, schema changes included, that holds each of its tables as the source's client
// printed it at the end.
type ddlCapture struct {
	*caseRun
	config string
	lost   func(string, map[string]*string) bool
	skip   string // tables
}

// captureWithDDL produces a connector's whole recording under the topics' names after name and a dash.
func captureWithDDL(t *testing.T, connector, name string) *ddlCapture {
	t.Helper()
	produceWithDDL(t, connector, name)
	return recordingInto(t, caseDatabase(t, strings.ReplaceAll(name, "-", "_")+"_"+connector), connector, name)
}

func produceWithDDL(t *testing.T, connector, name string) {
	t.Helper()
	topics, err := debeziumtest.Load(filepath.Join(captured, connector))
	if err != nil {
		t.Fatal(err)
	}
	for topic, records := range topics {
		as := name + "-" + topic
		if err := caseBroker(t).CreateTopic(as, 1, nil); err != nil {
			t.Fatal(err)
		}
		for part := range slices.Chunk(records, 3) { // a batch has a greatest size
			out := slices.Clone(part)
			for i := range out {
				out[i].Partition.Topic = as
			}
			if err := caseBroker(t).Produce(t.Context(), out...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// recordingInto is a run of what produceWithDDL has written, into the database at url.
func recordingInto(t *testing.T, url, connector, name string) *ddlCapture {
	t.Helper()
	server := httptest.NewServer(captureSchemas(t, "avro"))
	t.Cleanup(server.Close)
	lost, skip := plainLost, "dbz_signal"
	if connector == "bare" {
		// Its skipped.operations is the default: nothing in its topics tells of the TRUNCATE.
		lost, skip = bareLost, "(dbz_signal|audit_log)"
	}
	r := &caseRun{url: url, config: map[string]string{"schema.types.nul": "strip"}}
	config := fmt.Sprintf("pipeline: %[1]s-%[4]s\nsource:\n  brokers: [%[2]s]\n  topics: ['%[1]s-%[4]s\\.shop\\..*']\n  schema_changes: %[1]s-%[4]s\n"+
		"  registry: {url: '%[5]s/apis/ccompat/v7'}\n"+
		"target: {url: '%[3]s'}\ntables: [{match: 'shop\\.dbz_signal', skip: true}]\nhttp: {listen: ''}\n",
		name, strings.Join(caseBroker(t).Addrs(), ", "), r.url, connector, server.URL)
	return &ddlCapture{caseRun: r, config: config, lost: lost, skip: skip}
}

// equal compares rows, and the shapes of the tables that were changed: types, NOT NULL, defaults, keys and indexes.
func (c *ddlCapture) equal(t *testing.T) {
	t.Helper()
	compareCapture(t, c.caseRun, "mysql", c.skip, "", c.lost)
	const columns = `SELECT c.relname || '.' || a.attname AS name, format_type(a.atttypid, a.atttypmod), CASE WHEN a.attnotnull THEN 'NOT NULL' ELSE '' END,
	coalesce(pg_get_expr(d.adbin, d.adrelid), '')
FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' AND c.relname IN ('customers', 'vouchers', 'coupons', 'seats', 'products', 'Order')
	AND a.attnum > 0 AND NOT a.attisdropped ORDER BY c.relname || a.attname COLLATE "C"`
	want := finalColumns
	if c.caseRun.config["schema.types.enum"] == "enum" {
		want = strings.NewReplacer(`kind" | "text"`, `kind" | "products_kind_enum"`, `tags" | "text" | "NOT NULL" | "''::text"`, `tags" | "text[]" | "NOT NULL" | "'{}'::text[]"`).Replace(want)
		const labels = `SELECT string_agg(enumlabel, ',' ORDER BY enumsortorder) FROM pg_enum WHERE enumtypid = 'products_kind_enum'::regtype`
		if got := rowsText(c.exec(t, labels)); got != "\"book,toy,food,game\"\n" {
			t.Errorf("labels: %s", got)
		}
	}
	if got := rowsText(c.exec(t, columns)); got != want {
		t.Errorf("columns:\n%s\nwant\n%s", got, want)
	}
	const indexes = `SELECT c.relname, pg_get_indexdef(i.indexrelid, 0, true) FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
WHERE c.relnamespace = 'public'::regnamespace AND c.relname IN ('customers', 'vouchers', 'products', 'Order') ORDER BY c.relname COLLATE "C", 2`
	if got := rowsText(c.exec(t, indexes)); got != finalIndexes {
		t.Errorf("indexes:\n%s\nwant\n%s", got, finalIndexes)
	}
}

// finalColumns is what the source's schema.sql says of the tables that were changed, in the target's words.
const finalColumns = `"Order.Group2" | "integer" | "NOT NULL" | ""
"Order.a_column_name_that_is_exactly_sixty_four_characters_lo_7c7d79ab" | "integer" | "" | ""
"Order.select" | "character varying(10)" | "" | ""
"Order.user-name" | "character varying(20)" | "" | ""
"Order.été" | "character varying(20)" | "" | ""
"customers.balance" | "numeric(18,4)" | "NOT NULL" | "0"
"customers.created_at" | "timestamp without time zone" | "NOT NULL" | ""
"customers.email" | "character varying(120)" | "NOT NULL" | ""
"customers.id" | "integer" | "NOT NULL" | ""
"customers.name" | "character varying(120)" | "NOT NULL" | ""
"customers.note" | "character varying(500)" | "" | ""
"customers.profile" | "jsonb" | "" | ""
"customers.score" | "integer" | "NOT NULL" | "5"
"customers.telephone" | "character varying(30)" | "" | ""
"customers.updated_at" | "timestamp(3) with time zone" | "" | ""
"products.kind" | "text" | "NOT NULL" | ""
"products.picture" | "bytea" | "" | ""
"products.price" | "numeric(10,4)" | "NOT NULL" | ""
"products.sku" | "character varying(32)" | "NOT NULL" | ""
"products.tags" | "text" | "NOT NULL" | "''::text"
"products.title" | "character varying(200)" | "NOT NULL" | ""
"products.weight" | "double precision" | "" | ""
"vouchers.code" | "character varying(8)" | "NOT NULL" | ""
"vouchers.ends" | "timestamp(0) without time zone" | "" | ""
"vouchers.pct" | "smallint" | "NOT NULL" | ""
"vouchers.uses" | "integer" | "NOT NULL" | "0"
`

const finalIndexes = `"Order" | "CREATE UNIQUE INDEX \"Order_pkey\" ON \"Order\" USING btree (\"Group2\")"
"customers" | "CREATE UNIQUE INDEX customers_email ON customers USING btree (email)"
"customers" | "CREATE UNIQUE INDEX customers_pkey ON customers USING btree (id)"
"products" | "CREATE INDEX products_by_kind ON products USING btree (kind)"
"products" | "CREATE UNIQUE INDEX products_pkey ON products USING btree (sku)"
"vouchers" | "CREATE UNIQUE INDEX coupons_pkey ON vouchers USING btree (code, pct)"
`

// TestCaptureWithSchemaChanges replays what a real connector sent while tables were altered, renamed, truncated and dropped.
func TestCaptureWithSchemaChanges(t *testing.T) {
	t.Parallel()
	for _, connector := range []string{"plain", "bare", "avro"} {
		for _, rows := range []string{"1", "100000"} {
			t.Run(connector+" rows="+rows, func(t *testing.T) {
				t.Parallel()
				c := captureWithDDL(t, connector, "ddl-"+rows)
				c.caseRun.config["checkpoint.rows"] = rows
				if connector != "plain" { // whose kills are with enum types
					c.caseRun.config["schema.types.enum"] = map[string]string{"1": "enum", "100000": "text"}[rows]
				}
				if code, stderr := c.runConfig(t.Context(), t, c.config); code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
				c.equal(t)
			})
		}
	}
}

// TestReplayOverSchemaChanges replays from saved checkpoints that are older than a rename, a drop and a truncate: the end is the
// same.
func TestReplayOverSchemaChanges(t *testing.T) {
	t.Parallel()
	c := captureWithDDL(t, "plain", "ddl-replay")
	c.caseRun.config["checkpoint.rows"] = "8"
	if code, stderr := c.runConfig(t.Context(), t, c.config); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	saved := c.exec(t, "SELECT id FROM replicator.checkpoints ORDER BY id")
	if len(saved) < 10 {
		t.Fatalf("%d checkpoints", len(saved))
	}
	for i := 0; i < len(saved); i += max(1, len(saved)/8) {
		code, stderr := c.runArgs(t.Context(), t, c.config, "--from", *saved[i][0], "--replay")
		if code != 0 {
			t.Fatalf("from checkpoint %s: exit code %d:\n%s", *saved[i][0], code, stderr)
		}
		c.equal(t)
		if t.Failed() {
			t.Fatalf("from checkpoint %s", *saved[i][0])
		}
	}
}

// TestKillsDuringSchemaChanges kills the process again and again while tables change, of which one has an enum type that gets a label.
func TestKillsDuringSchemaChanges(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "replicator")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := captureWithDDL(t, "plain", "ddl-kill")
	c.caseRun.config["schema.types.enum"] = "enum"
	file := writeConfig(t, c.config)
	life := 150 * time.Millisecond
	for kills := 0; ; kills++ {
		life += 40 * time.Millisecond // so that the last one is long enough
		ctx, cancel := context.WithTimeout(t.Context(), life)
		cmd := exec.CommandContext(ctx, program, "run", "--config", file, "--until-caught-up", "--set", "checkpoint.rows=3", "--set", "schema.types.nul=strip", "--set", "schema.types.enum=enum")
		out, err := cmd.CombinedOutput()
		killed := ctx.Err() != nil
		cancel()
		if err == nil {
			t.Logf("%d kills", kills)
			break
		}
		if !killed {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	c.equal(t)
}
