package main

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator/sqlgen"
	"replicator/txnsink/mysql"
	"replicator/txnsink/mysql/mysqlserver"
)

// TestRecordedStreamsArePublished publishes what real connectors sent, with every type and with schema changes, and counts the rows that
// a reader makes of it: as many as the source had in the end, and none without its table.
func TestRecordedStreamsArePublished(t *testing.T) {
	t.Parallel()
	for _, connector := range []string{"plain", "avro", "bare"} {
		t.Run(connector, func(t *testing.T) {
			t.Parallel()
			name := "published-" + connector
			produceWithDDL(t, connector, name)
			server := httptest.NewServer(captureSchemas(t, "avro"))
			t.Cleanup(server.Close)
			k := &kafkaTarget{broker: caseBroker(t), topic: name + "-changes"}
			if err := k.broker.CreateTopic(k.topic, 1, nil); err != nil {
				t.Fatal(err)
			}
			k.file = configFile(t, fmt.Sprintf("pipeline: %[1]s\nsource:\n  brokers: [%[2]s]\n  topics: ['%[1]s-%[3]s\\.shop\\..*']\n  schema_changes: %[1]s-%[3]s\n"+
				"  registry: {url: '%[4]s/apis/ccompat/v7'}\ntarget: {url: 'kafka://%[2]s/%[5]s'}\ntables: [{match: 'shop\\.dbz_signal', skip: true}]\n"+
				"checkpoint: {store: 'file:%[6]s', rows: 50}\nhttp: {listen: ''}\nlog: {level: warn}\n",
				name, k.broker.Addrs()[0], connector, server.URL, k.topic, t.TempDir()))
			if code, _, stderr := call(t, "run", "--config", k.file, "--until-caught-up"); code != 0 {
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			got := k.rows(t)
			for _, table := range captureTables(t, "mysql") {
				// bare's skipped.operations is the default: nothing in its topics tells of the TRUNCATE.
				if table.Name == "dbz_signal" || connector == "bare" && table.Name == "audit_log" {
					continue
				}
				want := 0
				for _, row := range readJSONL[map[string]*string](t, filepath.Join(captured, "source", "mysql", table.Name+".jsonl")) {
					if connector != "bare" || !bareLost(table.Name, row) {
						want++
					}
				}
				if got[table.Name] != want {
					t.Errorf("table %s: a reader has %d rows, want %d", table.Name, got[table.Name], want)
				}
			}
		})
	}
}

// published is what a reader knows of a table.
type published struct {
	keyed map[string]map[string]json.RawMessage // by key
	bag   map[string]int
}

// rows follows a topic of one partition, and counts each table's rows.
func (k *kafkaTarget) rows(t *testing.T) map[string]int {
	t.Helper()
	tables := map[string]*published{}
	k.each(t, func(r *kgo.Record) {
		op, name := sqlgen.Op(r.Headers[0].Value), string(r.Headers[1].Value)
		var key struct{ Key json.RawMessage }
		read(t, r.Key, &key)
		p := tables[name]
		if p == nil && op != sqlgen.OpCreate {
			t.Fatalf("%s of table %s, of which no reader was told", op, name)
		}
		switch op {
		case sqlgen.OpCreate:
			tables[name] = &published{keyed: map[string]map[string]json.RawMessage{}, bag: map[string]int{}}
		case sqlgen.OpDrop:
			delete(tables, name)
		case sqlgen.OpTruncate:
			clear(p.keyed)
			clear(p.bag)
		case sqlgen.OpAlter:
			delete(tables, name)
			tables[p.alter(t, r.Value)] = p
		default:
			p.change(t, op, string(key.Key), r)
		}
	})
	counts := map[string]int{}
	for name, p := range tables {
		counts[name] = len(p.keyed)
		for _, n := range p.bag {
			counts[name] += n
		}
	}
	return counts
}

func read(t *testing.T, text []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

// change follows the message of a row.
func (p *published) change(t *testing.T, op sqlgen.Op, key string, r *kgo.Record) {
	t.Helper()
	switch op {
	case sqlgen.OpUpsert, sqlgen.OpUpdate, sqlgen.OpMove:
		row := p.keyed[key]
		if row == nil {
			row = map[string]json.RawMessage{}
		}
		read(t, r.Value, &row)
		p.keyed[key] = row
	case sqlgen.OpDelete, sqlgen.OpLeave:
		if key == "" {
			p.bag[string(r.Value)]--
		}
		delete(p.keyed, key)
	case sqlgen.OpInsert:
		p.bag[string(r.Value)]++
	case sqlgen.OpReplace:
		var v struct{ Before, After json.RawMessage }
		read(t, r.Value, &v)
		p.bag[string(v.Before)]--
		p.bag[string(v.After)]++
	default:
		t.Errorf("op %s", op)
	}
}

// alter brings the rows to the table's new columns and key, and returns its name.
func (p *published) alter(t *testing.T, value []byte) string {
	t.Helper()
	var shape struct {
		Table   string
		Key     []string
		Renamed map[string]string
	}
	read(t, value, &shape)
	rows := map[string]map[string]json.RawMessage{}
	for _, row := range p.keyed {
		next := map[string]json.RawMessage{}
		for column, v := range row {
			if as, ok := shape.Renamed[column]; ok {
				column = as
			}
			next[column] = v
		}
		var key []string
		for _, column := range shape.Key {
			key = append(key, fmt.Sprintf("%q:%s", column, next[column]))
		}
		rows["{"+strings.Join(key, ",")+"}"] = next
	}
	p.keyed = rows
	return shape.Table
}

// TestPublishedSQLMakesTheSourcesTables runs what is published as SQL in MySQL, a message after the other, and compares all tables
// with the source's.
func TestPublishedSQLMakesTheSourcesTables(t *testing.T) {
	produceWithDDL(t, "plain", "sql")
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		if server.Kind() == mysqlserver.MariaDB {
			return // whose upserts are written otherwise
		}
		database := "published"
		if err := server.CreateDatabase(t.Context(), database); err != nil {
			t.Fatal(err)
		}
		c := recordingInto(t, server.URL(database), "plain", "sql")
		delete(c.caseRun.config, "schema.types.nul")
		k := &kafkaTarget{broker: caseBroker(t), topic: "sql-" + string(server.Kind())}
		config := strings.Replace(c.config, c.url, "kafka://"+k.broker.Addrs()[0]+"/"+k.topic, 1) +
			fmt.Sprintf("checkpoint: {store: 'file:%s', rows: 50}\n", t.TempDir())
		config = strings.Replace(config, "target: {", "target: {format: sql, ", 1)
		config = strings.Replace(config, "pipeline: sql", "pipeline: sql-"+string(server.Kind()), 1)
		if code, stderr := c.runConfig(t.Context(), t, config); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		c.exec(t, mysqlOthers(mysqlserver.MySQL8)) // whose vectors are JSON, as they are published
		db, err := mysql.OpenDB(c.url, nil, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		k.each(t, func(r *kgo.Record) {
			if _, err := db.ExecContext(t.Context(), string(r.Value)); err != nil {
				t.Fatalf("%s: %v", r.Value, err)
			}
		})
		c.equalMySQL(t)
	})
}
