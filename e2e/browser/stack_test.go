//go:build browser

package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
	"replicator/txnsink/postgres/pgserver"
)

const token = "sesame"

var tables = []string{"customers", "orders", "order_items", "products"}

// stack is a pipeline in which everything is real.
type stack struct {
	server *pgserver.Server
	broker *broker.Broker
	binary string
	config string
	listen string // 127.0.0.1:PORT, once it was started
	child  *child
	rows   int
}

func newStack(t *testing.T) *stack {
	t.Helper()
	dir := t.TempDir()
	server, err := pgserver.Start(t.Context(), pgserver.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	b, err := broker.Start(broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	s := &stack{server: server, broker: b, binary: filepath.Join(dir, "replicator"), config: filepath.Join(dir, "config.yaml"), listen: "127.0.0.1:0"}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", s.binary, "replicator/cmd/replicator").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	text := fmt.Sprintf(`pipeline: shop
source:
  brokers: ['%s']
  topics: ['shop\.shop\..*']
  schema_changes: shop
target:
  url: %s
  table: public.{table}
tables:
  - {match: 'shop\.audit_.*', skip: true}
checkpoint: {interval: 500ms}
workers: 3
errors: {bad_record: dead-letter}
http: {token: %s}
`, b.Addrs()[0], server.URL("postgres"), token)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := b.CreateTopic("shop", 1, nil); err != nil {
		t.Fatal(err)
	}
	for i, table := range tables {
		s.exec(t, "CREATE TABLE "+table+" (id bigint PRIMARY KEY, v text)")
		if err := b.CreateTopic("shop.shop."+table, 2, nil); err != nil {
			t.Fatal(err)
		}
		if err := b.Produce(t.Context(), described(table, i)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { s.kill(t) })
	return s
}

// described is the record of the schema-change topic that describes a table.
func described(table string, at int) debezium.Record {
	return debezium.Record{Partition: debezium.Partition{Topic: "shop"}, Value: fmt.Appendf(nil, `{"source":{"connector":"mysql","name":"shop","db":"shop","table":%[1]q,"ts_ms":1704067200000,"server_id":1,"file":"binlog.000001","pos":%[2]d,"row":0},
		"databaseName":"shop","ddl":"CREATE TABLE %[1]s (id BIGINT PRIMARY KEY, v TEXT)","tableChanges":[{"type":"CREATE","id":"\"shop\".\"%[1]s\"","table":{"primaryKeyColumnNames":["id"],"columns":[
		{"name":"id","typeName":"BIGINT","typeExpression":"BIGINT","position":1,"optional":false},{"name":"v","typeName":"TEXT","typeExpression":"TEXT","charsetName":"utf8mb4","position":2,"optional":true}]}}]}`, table, 100+at)}
}

// produceBad writes a record that is none.
func (s *stack) produceBad(ctx context.Context) error {
	return s.broker.Produce(ctx, debezium.Record{Partition: debezium.Partition{Topic: "shop.shop.orders"}, Key: []byte(`{"id":1000000}`), Value: []byte("{")})
}

// exec runs one statement in the target.
func (s *stack) exec(t *testing.T, sql string) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Exec(t.Context(), sql)
	if cerr := c.Close(t.Context()); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
}

// produce writes n rows, in turn to each table.
func (s *stack) produce(ctx context.Context, n int) error {
	var records []debezium.Record
	for range n {
		s.rows++
		table := tables[s.rows%len(tables)]
		records = append(records, debezium.Record{
			Partition: debezium.Partition{Topic: "shop.shop." + table, ID: int32(s.rows / len(tables) % 2)},
			Key:       fmt.Appendf(nil, `{"id":%d}`, s.rows),
			Value: fmt.Appendf(nil, `{"before":null,"after":{"id":%d,"v":"x"},"source":{"connector":"mysql","name":"shop","db":"shop","table":"%s","ts_ms":%d,"snapshot":"false","server_id":1,"file":"binlog.000001","pos":%d,"row":0},"op":"c"}`,
				s.rows, table, time.Now().UnixMilli(), 1000+s.rows),
		})
	}
	return s.broker.Produce(ctx, records...)
}

// child is the replicator as a process.
type child struct {
	cmd  *exec.Cmd
	done chan struct{}
	mu   sync.Mutex
	log  bytes.Buffer
}

func (c *child) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(b)
}

func (c *child) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

var serving = regexp.MustCompile(`http=http://(127\.0\.0\.1:\d+)/`)

// start starts the replicator, at the address that it had before.
func (s *stack) start(t *testing.T) {
	t.Helper()
	c := &child{cmd: exec.Command(s.binary, "run", "--config", s.config, "--set", "http.listen="+s.listen), done: make(chan struct{})}
	c.cmd.Stderr = c
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.child = c
	go func() {
		err := c.cmd.Wait()
		fmt.Fprintf(c, "ended: %v\n", err)
		close(c.done)
	}()
	eventually(t, "the replicator serves", func() bool {
		m := serving.FindStringSubmatch(c.text())
		if m != nil {
			s.listen = m[1]
		}
		return m != nil
	})
	eventually(t, "it is ready", func() bool {
		code, _ := s.get(t, "/readyz")
		return code == http.StatusOK
	})
}

func (s *stack) kill(t *testing.T) {
	t.Helper()
	if s.child == nil {
		return
	}
	if err := s.child.cmd.Process.Kill(); err == nil {
		<-s.child.done
	}
	if t.Failed() {
		t.Logf("the replicator's log:\n%s", s.child.text())
	}
	s.child = nil
}

func (s *stack) get(t *testing.T, path string) (int, []byte) {
	t.Helper()
	answer, err := http.Get("http://" + s.listen + path)
	if err != nil {
		return 0, nil // not reachable yet
	}
	body, err := io.ReadAll(answer.Body)
	if cerr := answer.Body.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	return answer.StatusCode, body
}

// status is the part of /api/status that the page shows in figures.
type status struct {
	State       string
	Workers     int
	Epoch       int64
	Checkpoint  int64
	Lag         int64
	Restarts    int64
	DeadLetters int64 `json:"dead_letters"`
	InDoubt     []any `json:"in_doubt"`
	Asides      []struct {
		Table, Reason string
		Records       int64
	}
	Partitions []struct {
		Topic              string
		Partition          int
		Position, End, Lag int64
	}
	Tables []struct {
		Source, Target                         string
		Rows, Reads, Creates, Updates, Deletes int64
		SchemaVersion                          *int64 `json:"schema_version"`
	}
	Checkpoints []struct{ ID, Rows int64 }
	Runs        []struct {
		Reason string
		Epoch  int64
	}
}

func (s *stack) status(t *testing.T) status {
	t.Helper()
	code, body := s.get(t, "/api/status")
	var out status
	if err := json.Unmarshal(body, &out); code != http.StatusOK || err != nil {
		t.Fatalf("/api/status: %d, %v: %s", code, err, body)
	}
	return out
}

// eventually waits until ok, for a minute and a half.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for range 900 {
		if ok() {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
	}
	t.Fatalf("not within 90 s: %s", what)
}
