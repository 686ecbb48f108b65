package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
)

// pgSource is the captured PostgreSQL source's tables by their own definition; wide has the column that an ALTER added.
const pgSource = `CREATE EXTENSION hstore; CREATE EXTENSION citext; CREATE EXTENSION ltree; CREATE TYPE mood AS ENUM ('sad','ok');
CREATE TABLE wide (
	id int PRIMARY KEY, b boolean, s smallint, i int, l bigint, r real, d double precision, n numeric, n52 numeric(5,2), mo money,
	c char(4), v varchar(10), t text, ci citext, by bytea, u uuid, j json, jb jsonb, h hstore, x xml, e mood,
	da date, ti time(6), tz timetz, ts timestamp, tsz timestamptz, iv interval, ip inet, ci4 cidr, ma macaddr, po point,
	bi bit(5), vb varbit, ai int[], at text[], i4 int4range, tr tstzrange, li ltree, added int DEFAULT 3);
CREATE TABLE toasted (id int PRIMARY KEY, n int, body text);
CREATE TABLE full_identity (a int, b text);
CREATE TABLE emptied (id int PRIMARY KEY);`

// TestCapturePostgres replays what the PostgreSQL connector sent, into tables that the replicator creates and into ones
// like the source's, and compares every row with the source's own.
func TestCapturePostgres(t *testing.T) {
	t.Parallel()
	topics, err := debeziumtest.Load(filepath.Join(captured, "pg"))
	if err != nil {
		t.Fatal(err)
	}
	// The last record of wide has a column that an ALTER added.
	wide := topics["pg.public.wide"]
	topics["pg.public.wide"] = wide[:len(wide)-1]
	for topic, records := range topics {
		if err := caseBroker(t).CreateTopic(topic, 1, nil); err != nil {
			t.Fatal(err)
		}
		if err := caseBroker(t).Produce(t.Context(), records...); err != nil {
			t.Fatal(err)
		}
	}
	replayPostgres(t, "created", "", asCreated)
	if err := caseBroker(t).Produce(t.Context(), debezium.Record{
		Partition: wide[0].Partition, Key: wide[len(wide)-1].Key, Value: wide[len(wide)-1].Value,
	}); err != nil {
		t.Fatal(err)
	}
	replayPostgres(t, "existing", pgSource, asSent)
}

func replayPostgres(t *testing.T, name, setup string, sent func(table string, row map[string]any)) {
	t.Helper()
	r := &caseRun{url: caseDatabase(t, "capture_pg_"+name), config: map[string]string{}}
	if setup != "" {
		r.exec(t, setup)
	}
	config := fmt.Sprintf("pipeline: capture-pg-%s\nsource:\n  brokers: [%s]\n  topics: ['pg\\..*']\ntarget: {url: '%s'}\nhttp: {listen: ''}\n",
		name, strings.Join(caseBroker(t).Addrs(), ", "), r.url)
	if code, stderr := r.runConfig(t.Context(), t, config); code != 0 {
		t.Fatalf("%s: exit code %d:\n%s", name, code, stderr)
	}
	for _, table := range []string{"wide", "toasted", "full_identity", "emptied"} {
		want := readJSONL[json.RawMessage](t, filepath.Join(captured, "source", "postgres", table+".jsonl"))
		got := r.exec(t, fmt.Sprintf("SET timezone TO 'UTC'; SELECT row_to_json(stored) FROM %s AS stored", table))
		if len(got) != len(want) {
			t.Errorf("%s: %s has %d rows, want %d", name, table, len(got), len(want))
			continue
		}
		wanted := map[string]map[string]any{}
		for _, line := range want {
			row := exactJSON(t, line)
			sent(table, row)
			wanted[fmt.Sprint(row["id"], row["a"])] = row
		}
		for _, line := range got {
			row := exactJSON(t, []byte(*line[0]))
			source := wanted[fmt.Sprint(row["id"], row["a"])]
			for column, v := range source {
				if !reflect.DeepEqual(row[column], v) {
					t.Errorf("%s: %s %v, column %s: got %v, want %v", name, table, row["id"], column, row[column], v)
				}
			}
			if len(row) != len(source) {
				t.Errorf("%s: %s has %d columns, want %d", name, table, len(row), len(source))
			}
		}
	}
}

// asSent changes a row of the source into what the connector sent of it.
func asSent(table string, row map[string]any) {
	switch {
	case table == "wide" && row["id"] == json.Number("1"):
		row["n"] = nil                // decimal.handling.mode=precise has no NaN: the connector sends null
		row["tz"] = "10:00:00+00"     // the connector moves a time with a zone to UTC
		row["iv"] = "10303:05:06.789" // interval.handling.mode=numeric: months and days are sent as microseconds
	case table == "wide" && row["id"] == json.Number("3"):
		row["da"] = "0044-03-15" // the connector loses the era of a date, though not of a timestamp
	}
}

// asCreated changes a row of the source into what a created table holds, whose columns are of types that every
// PostgreSQL has and that the event's schema tells: money is a number and a point its well-known binary.
func asCreated(table string, row map[string]any) {
	asSent(table, row)
	delete(row, "added") // by the record that is not sent
	if money, ok := row["mo"].(string); ok {
		row["mo"] = json.Number(strings.NewReplacer("$", "", ",", "").Replace(money))
	}
	if row["po"] != nil {
		row["po"] = `\x0101000000000000000000f03f0000000000000040`
	}
}

// exactJSON reads an object and keeps the digits of its numbers.
func exactJSON(t *testing.T, b []byte) map[string]any {
	t.Helper()
	var v map[string]any
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	return v
}
