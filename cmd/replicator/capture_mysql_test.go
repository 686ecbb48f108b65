package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator/e2e"
	"replicator/txnsink/mysql/mysqlserver"
)

// TestMySQLCapture is TestCapture with MySQL and MariaDB as the target: the source's types come back as they were.
func TestMySQLCapture(t *testing.T) {
	registries := map[string]string{}
	for connector := range captures {
		schemas := captureSchemas(t, connector)
		registry := httptest.NewServer(schemas)
		t.Cleanup(registry.Close)
		registries[connector] = registry.URL + registryPath(connector)
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
					"  registry: {url: '%[5]s'}\n"+
					"target: {url: '%[3]s'}\ntables: [{match: 'shop\\.%[6]s', skip: true}]\nhttp: {listen: ''}\n",
					name, strings.Join(caseBroker(t).Addrs(), ", "), r.url, connector, registries[connector], c.skip)
				if code, stderr := r.runConfig(t.Context(), t, config); code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
				compareCapture(t, r, "mysql-02", c.skip, c.only, c.lost)
			})
		}
	})
}

// TestMySQLCaptureWithSchemaChanges is TestCaptureWithSchemaChanges with MySQL and MariaDB as the target: what was altered has the
// source's own types afterwards.
func TestMySQLCaptureWithSchemaChanges(t *testing.T) {
	for _, connector := range []string{"plain", "avro"} {
		produceWithDDL(t, connector, "mysql-ddl")
	}
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		for _, connector := range []string{"plain", "avro"} {
			for _, rows := range []string{"1", "100000"} {
				t.Run(connector+" rows="+rows, func(t *testing.T) {
					c := newMySQLDDL(t, server, connector, "ddl_"+connector+"_"+rows)
					c.caseRun.config["checkpoint.rows"] = rows
					if code, stderr := c.runConfig(t.Context(), t, c.config); code != 0 {
						t.Fatalf("exit code %d:\n%s", code, stderr)
					}
					c.equalMySQL(t)
					if planned := c.schema(t, "plan"); !strings.HasPrefix(planned, "-- shop.big to big\nCREATE TABLE ") || strings.Contains(planned, "\n-- ") {
						t.Errorf("planned besides the table that has no rows:\n%s", planned)
					}
				})
			}
		}
		t.Run("killed", func(t *testing.T) {
			c := newMySQLDDL(t, server, "plain", "ddl_killed")
			config := writeConfig(t, c.config)
			kills := 0
			for life := 200 * time.Millisecond; ; life += 100 * time.Millisecond {
				p := start(t, "run", "--config", config, "--until-caught-up", "--set", "checkpoint.rows=3")
				select {
				case <-time.After(life):
					if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
						t.Fatal(err)
					}
					<-p.done
				case <-p.done:
				}
				code := p.cmd.ProcessState.ExitCode()
				if code == 0 {
					break
				}
				if kills++; code != -1 { // which is a signal's
					t.Fatalf("exit code %d:\n%s", code, p.stderr.String())
				}
			}
			t.Logf("%d kills", kills)
			c.equalMySQL(t)
		})
	})
}

func newMySQLDDL(t *testing.T, server *mysqlserver.Server, connector, database string) *ddlCapture {
	t.Helper()
	if err := server.CreateDatabase(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	c := recordingInto(t, server.URL(database), connector, "mysql-ddl")
	delete(c.caseRun.config, "schema.types.nul")
	c.exec(t, mysqlOthers(server.Kind()))
	return c
}

// equalMySQL compares rows, and the types and keys of the tables that were altered with the source's.
func (c *ddlCapture) equalMySQL(t *testing.T) {
	t.Helper()
	compareCapture(t, c.caseRun, "mysql", c.skip, "", c.lost)
	for _, table := range captureTables(t, "mysql") {
		if !slices.Contains([]string{"customers", "products", "vouchers", "Order"}, table.Name) {
			continue
		}
		want := map[string]string{}
		for _, column := range table.Columns {
			want[column.Name] = mysqlType(column.FullType, column.Key)
		}
		got := map[string]string{}
		for _, column := range c.exec(t, "SELECT column_name, column_type, column_key = 'PRI' FROM information_schema.columns WHERE table_schema = DATABASE() AND table_name = '"+table.Name+"'") {
			got[*column[0]] = mysqlType(*column[1], *column[2] == "1")
		}
		if !maps.Equal(got, want) {
			t.Errorf("table %s: got %v, want %v", table.Name, got, want)
		}
	}
	if left := rowsText(c.exec(t, "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ('coupons', 'seats')")); left != "" {
		t.Errorf("not renamed or not dropped: %s", left)
	}
}

// mysqlType writes a type as every server does: without the width of an integer, and JSON as what it is on MariaDB.
func mysqlType(full string, key bool) string {
	full = integerWidth.ReplaceAllString(full, "$1")
	if full == "json" {
		full = "longtext"
	}
	return fmt.Sprintf("%s, key %v", full, key)
}

var integerWidth = regexp.MustCompile(`^((?:tiny|small|medium|big)?int)\([0-9]+\)`)

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
