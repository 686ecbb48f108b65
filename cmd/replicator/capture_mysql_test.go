package main

import (
	"fmt"
	"maps"
	"net/http/httptest"
	"strings"
	"testing"

	"replicator/e2e"
	"replicator/txnsink/mysql/mysqlserver"
)

// TestMySQLCapture is TestCapture with MySQL and MariaDB as the target: the source's types come back as they were.
func TestMySQLCapture(t *testing.T) {
	schemas := captureSchemas(t)
	registry := httptest.NewServer(schemas)
	t.Cleanup(registry.Close)
	for connector := range captures {
		produceCapture(t, connector, "mysql", schemas, nil)
	}
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		for connector, c := range captures {
			t.Run(connector, func(t *testing.T) {
				name := "capture_" + connector
				if err := server.CreateDatabase(t.Context(), name); err != nil {
					t.Fatal(err)
				}
				r := &caseRun{url: server.URL(name), config: map[string]string{"schema.evolve": "ignore"}}
				maps.Copy(r.config, c.config)
				r.exec(t, mysqlOthers(server.Kind()))
				if connector == "loose" { // as a double, a DECIMAL(65,30) has a digit more than any DECIMAL of MySQL
					c.skip = "(dbz_signal|numbers)"
				}
				config := fmt.Sprintf("pipeline: %[1]s\nsource:\n  brokers: [%[2]s]\n  topics: ['mysql-%[4]s\\.shop\\..*']\n  schema_changes: mysql-%[4]s\n"+
					"  registry: {url: '%[5]s/apis/ccompat/v7'}\n"+
					"target: {url: '%[3]s'}\ntables: [{match: 'shop\\.%[6]s', skip: true}]\nhttp: {listen: ''}\n",
					name, strings.Join(caseBroker(t).Addrs(), ", "), r.url, connector, registry.URL, c.skip)
				if code, stderr := r.runConfig(t.Context(), t, config); code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
				compareCapture(t, r, "mysql-02", c.skip, c.only, c.lost)
			})
		}
	})
}

// mysqlOthers makes the table others with one label more: the source has MySQL's error value, which prints as an empty text and which
// a strict server does not take. The type of column v is the server's nearest.
func mysqlOthers(kind mysqlserver.Kind) string {
	vector := "json"
	if kind == mysqlserver.MySQL9 {
		vector = "vector(3)"
	}
	return "CREATE TABLE others (id int PRIMARY KEY, j json, e enum('a','b','c,d',''), s set('x','y','z'), p point, g geometry, v " + vector + ")"
}

// capturedMySQL is captured on MySQL: what its client would print.
func (r *caseRun) capturedMySQL(t *testing.T, table e2e.Table) (rows []e2e.Row) {
	t.Helper()
	var columns []string
	for _, c := range table.Columns {
		text := c.SelectExpression()
		switch {
		case c.Type == "vector":
			text = mysqlVectorText(t, r, table.Name, c.Name)
		case c.Type == "bit": // as a number, HEX has no leading zeros
			text = "CONCAT('0x', LPAD(HEX(" + text + "), 16, '0'))"
		case strings.HasSuffix(c.Type, "binary") || strings.HasSuffix(c.Type, "blob") || mysqlShapes[c.Type]:
			text = "CONCAT('0x', HEX(" + text + "))"
		}
		columns = append(columns, text)
	}
	for _, row := range r.exec(t, fmt.Sprintf("SELECT %s FROM `%s`", strings.Join(columns, ", "), table.Name)) {
		rows = append(rows, row)
	}
	return rows
}

var mysqlShapes = map[string]bool{"geometry": true, "point": true, "linestring": true, "polygon": true}

// mysqlVectorText prints a VECTOR as its server does for people, and what holds its numbers elsewhere as it is.
func mysqlVectorText(t *testing.T, r *caseRun, table, column string) string {
	t.Helper()
	text := "`" + column + "`"
	types := r.exec(t, "SELECT data_type FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = '"+table+"' AND column_name = '"+column+"'")
	if *types[0][0] == "vector" {
		return "VECTOR_TO_STRING(" + text + ")"
	}
	return "REPLACE(" + text + ", ', ', ',')"
}

// mysqlWritten reads what capturedMySQL printed.
func mysqlWritten(c e2e.Column, s string) (e2e.Value, error) {
	if c.Type == "vector" {
		return c.FromPostgres(s) // an array of numbers
	}
	return c.FromMySQL(s)
}
