package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"replicator/debezium/debeziumtest"
	"replicator/txnsink/mysql/mysqlserver"
)

// TestMySQLCapturePostgres replays what the PostgreSQL connector sent into MySQL and MariaDB. Table wide has what no type of theirs
// holds, and says so; the others are compared with the source's own rows.
func TestMySQLCapturePostgres(t *testing.T) {
	topics, err := debeziumtest.Load(filepath.Join(captured, "pg"))
	if err != nil {
		t.Fatal(err)
	}
	for topic, records := range topics {
		topic = "mysql-" + topic
		if err := caseBroker(t).CreateTopic(topic, 1, nil); err != nil {
			t.Fatal(err)
		}
		for i := range records {
			records[i].Partition.Topic = topic
		}
		if err := caseBroker(t).Produce(t.Context(), records...); err != nil {
			t.Fatal(err)
		}
	}
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		if err := server.CreateDatabase(t.Context(), "pg"); err != nil {
			t.Fatal(err)
		}
		r := &caseRun{url: server.URL("pg"), config: map[string]string{}}
		config := fmt.Sprintf("pipeline: capture-pg\nsource:\n  brokers: [%s]\n  topics: ['mysql-pg\\..*']\ntarget: {url: '%s'}\nhttp: {listen: ''}\n",
			strings.Join(caseBroker(t).Addrs(), ", "), r.url)
		code, stderr := r.runConfig(t.Context(), t, config)
		r.stopped(t, code, stderr, "unstorable_value", "wide", "no NaN or infinity")
		r.config["pipeline"] = "capture-pg-narrow"
		if code, stderr := r.runConfig(t.Context(), t, config+"tables: [{match: '.*\\.wide', skip: true}]\n"); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		for table, columns := range map[string][]string{"toasted": {"id", "n", "body"}, "full_identity": {"a", "b"}, "emptied": {"id"}} {
			var want [][]*string
			for _, line := range readJSONL[json.RawMessage](t, filepath.Join(captured, "source", "postgres", table+".jsonl")) {
				row, values := exactJSON(t, line), make([]*string, len(columns))
				for i, c := range columns {
					if row[c] != nil {
						values[i] = ptr(fmt.Sprint(row[c]))
					}
				}
				want = append(want, values)
			}
			got := r.exec(t, "SELECT "+strings.Join(columns, ", ")+" FROM "+table)
			for _, rows := range [][][]*string{got, want} {
				slices.SortFunc(rows, func(a, b []*string) int { return strings.Compare(rowsText([][]*string{a}), rowsText([][]*string{b})) })
			}
			if rowsText(got) != rowsText(want) {
				t.Errorf("%s: got\n%.500s\nwant\n%.500s", table, rowsText(got), rowsText(want))
			}
		}
	})
}
