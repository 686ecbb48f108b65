package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
	"replicator/txnsink"
	"replicator/txnsink/postgres/pgserver"
)

func mustMatch(t *testing.T, expr string) *regexp.Regexp {
	t.Helper()
	return regexp.MustCompile("^(?:" + expr + ")$")
}

// stack is a server, a broker and a configuration of a pipeline between them.
type stack struct {
	server *pgserver.Server
	broker *broker.Broker
	file   string
}

func newStack(t *testing.T, maxPrepared int) *stack {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Config{MaxPreparedTransactions: maxPrepared})
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
	s := &stack{server: server, broker: b}
	s.file = configFile(t, fmt.Sprintf("pipeline: shop\nsource:\n  brokers: [%s]\n  topics: ['p\\.shop\\..*']\ntarget:\n  url: %s\nhttp: {listen: ''}\nlog: {level: warn}\n",
		b.Addrs()[0], strings.Replace(server.URL("postgres"), "postgres@", "postgres:secret@", 1)))
	return s
}

// produce creates a topic with one row of a table without a schema.
func (s *stack) produce(t *testing.T, table string, values ...string) {
	t.Helper()
	if err := s.broker.CreateTopic("p.shop."+table, 1, nil); err != nil {
		t.Fatal(err)
	}
	s.produceMore(t, table, values...)
}

// produceMore writes rows to a topic that is there.
func (s *stack) produceMore(t *testing.T, table string, values ...string) {
	t.Helper()
	topic := "p.shop." + table
	for _, v := range values {
		err := s.broker.Produce(t.Context(), debezium.Record{
			Partition: debezium.Partition{Topic: topic},
			Key:       []byte(`{"id":` + v + `}`),
			Value:     fmt.Appendf(nil, `{"before":null,"after":{"id":%s,"v":"x"},"source":{"connector":"mysql","name":"p","db":"shop","table":"%s","snapshot":"false"},"op":"c"}`, v, table),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// facts runs a command with --json and reads what it prints.
func facts[T any](t *testing.T, wantCode int, args ...string) T {
	t.Helper()
	code, stdout, stderr := call(t, append(args, "--json")...)
	var v T
	if err := json.Unmarshal([]byte(stdout), &v); code != wantCode || err != nil {
		t.Fatalf("%v: exit code %d, want %d; %v: %s%s", args, code, wantCode, err, stdout, stderr)
	}
	if strings.Contains(stdout, "secret") || strings.Contains(stderr, "secret") {
		t.Errorf("%v shows the password: %s%s", args, stdout, stderr)
	}
	return v
}

func TestCommandsOnAPipeline(t *testing.T) {
	t.Parallel()
	s := newStack(t, 10)
	check := func(when string, code int, want ...string) {
		t.Helper()
		if got := problems(facts[[]finding](t, code, "check", "--config", s.file)); !slices.Equal(got, want) {
			t.Errorf("check %s: got %v, want %v", when, got, want)
		}
	}
	check("before there is a topic", exitPreflight, "schema_changes/unset", "topics/none")
	for _, args := range [][]string{{"checkpoints", "list"}, {"transactions", "list"}} {
		code, _, stderr := call(t, append(args, "--config", s.file)...)
		if code != exitFailed || !strings.Contains(stderr, "own tables are missing") {
			t.Errorf("%v before the first run: exit code %d, %s", args, code, stderr)
		}
	}
	s.produce(t, "t", "1", "2", "3")
	check("before there is a table", exitPreflight, "connector/position", "connector/schemaless", "schema_changes/unset", "types/none")
	if code, _, stderr := call(t, "run", "--config", s.file, "--until-caught-up", "--set", "schema.create=false"); code != exitFailed || !strings.Contains(stderr, "replicator: pipeline shop: unknown_table: table t") {
		t.Fatalf("run without the table: exit code %d\n%s", code, stderr)
	}
	define(t, s, "CREATE TABLE t (id int PRIMARY KEY, v text)")
	check("before the run", exitDone, "connector/position", "connector/schemaless", "schema_changes/unset")
	if code, stdout, stderr := call(t, "run", "--config", s.file, "--until-caught-up"); code != exitDone || stdout+stderr != "" {
		t.Fatalf("run: exit code %d\n%s%s", code, stdout, stderr)
	}

	list := facts[[]checkpointFacts](t, exitDone, "checkpoints", "list", "--config", s.file)
	if len(list) < 2 {
		t.Fatalf("checkpoints: %+v", list)
	}
	last := list[len(list)-1]
	if last.Rows != 3 || len(last.Positions) != 1 || last.Positions[0].Topic != "p.shop.t" || last.Positions[0].Offset != 3 || len(last.Txns) != 1 {
		t.Errorf("last checkpoint: %+v", last)
	}
	shown := facts[checkpointFacts](t, exitDone, "checkpoints", "show", fmt.Sprint(last.ID), "--config", s.file)
	if !reflect.DeepEqual(shown, last) {
		t.Errorf("show: got %+v, want %+v", shown, last)
	}
	if got := facts[[]transactionFacts](t, exitDone, "transactions", "list", "--config", s.file); len(got) != 0 {
		t.Errorf("transactions: %+v", got)
	}
	if code, _, stderr := call(t, "checkpoints", "show", "999", "--config", s.file); code != exitFailed || !strings.Contains(stderr, "checkpoint 999 of pipeline shop: no such checkpoint; see replicator checkpoints list") {
		t.Errorf("show 999: exit code %d, %s", code, stderr)
	}
	for _, args := range [][]string{{"checkpoints", "list"}, {"checkpoints", "show", fmt.Sprint(last.ID)}, {"transactions", "list"}, {"check"}} {
		if code, stdout, stderr := call(t, append(args, "--config", s.file)...); code != exitDone || stdout == "" || stderr != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

// define runs DDL on the target as its superuser.
func define(t *testing.T, s *stack, ddl string) {
	t.Helper()
	c := minimalConfig()
	c.Target.URL = s.server.URL("postgres")
	sink, err := openSink(t.Context(), &c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.Define(t.Context(), txnsink.Definition{DDL: []string{ddl}}); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestServerWithoutPreparedTransactionsIsRefused(t *testing.T) {
	t.Parallel()
	s := newStack(t, -1)
	s.produce(t, "t", "1")
	code, _, stderr := call(t, "run", "--config", s.file, "--until-caught-up")
	if code != exitFailed || !strings.Contains(stderr, "max_prepared_transactions") || !strings.Contains(stderr, "delivery") {
		t.Errorf("run: exit code %d\n%s", code, stderr)
	}
	if got := problems(facts[[]finding](t, exitPreflight, "check", "--config", s.file)); !slices.Contains(got, "two-phase/unusable") {
		t.Errorf("check: %v", got)
	}
	define(t, s, "CREATE TABLE t (id int PRIMARY KEY, v text)")
	if code, _, stderr := call(t, "run", "--config", s.file, "--until-caught-up", "--set", "delivery=at-least-once"); code != exitDone {
		t.Errorf("run at-least-once: exit code %d\n%s", code, stderr)
	}
}

// TestAStandbyIsNoTarget in any delivery: run waits for it to become a primary, and check says what it is.
func TestAStandbyIsNoTarget(t *testing.T) {
	t.Parallel()
	s := newStack(t, 10)
	s.produce(t, "t", "1")
	conn, err := pgx.Connect(t.Context(), s.server.URL("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	var dir string
	if err := conn.QueryRow(t.Context(), "SELECT current_setting('data_directory')").Scan(&dir); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Close(t.Context()), s.server.Kill(), os.WriteFile(filepath.Join(dir, "standby.signal"), nil, 0o666), s.server.Restart(t.Context())); err != nil {
		t.Fatal(err)
	}
	got := facts[[]finding](t, exitPreflight, "check", "--config", s.file, "--set", "delivery=one-phase")
	want := finding{levelError, "target", "standby", "the server is a standby, and takes no writes", "name the primary, or both and target_session_attrs=read-write, in target.url"}
	if want.name() != "target/standby" || !slices.Contains(got, want) {
		t.Errorf("got %+v, want %+v among them", got, want)
	}
}

func TestCheckNamesMissingGrants(t *testing.T) {
	t.Parallel()
	s := newStack(t, 10)
	s.produce(t, "t", "1")
	define(t, s, "CREATE ROLE weak LOGIN PASSWORD 'secret'")
	define(t, s, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")
	url := strings.Replace(s.server.URL("postgres"), "postgres@", "weak:secret@", 1)
	for table, want := range map[string]string{
		"{table}":     "own tables/create schemas/create triggers/role",
		"crm.{table}": "own tables/create schemas/missing triggers/role",
	} {
		list := facts[[]finding](t, exitPreflight, "check", "--config", s.file, "--set", "target.url="+url, "--set", "target.table="+table)
		got := strings.Join(slices.DeleteFunc(problems(list), func(n string) bool {
			return strings.HasPrefix(n, "connector/") || n == "schema_changes/unset" || n == "types/none"
		}), " ")
		if got != want {
			t.Errorf("tables go to %s: found %q, want %q", table, got, want)
		}
		if own := (finding{levelError, "own tables", "create", "role weak may not create schema replicator", "GRANT CREATE ON DATABASE postgres TO weak, or " + adviceOtherRole}); !slices.Contains(list, own) {
			t.Errorf("got %+v, want %+v among them", list, own)
		}
	}
}

func TestCheckSaysWhatCannotBeReached(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	store := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(store, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := configFile(t, fmt.Sprintf("pipeline: shop\nsource: {brokers: ['%s'], topics: [a]}\ntarget: {url: 'postgres://u:secret@%s/d'}\ncheckpoint: {store: 'file:%s'}\n", addr, addr, store))
	got := facts[[]finding](t, exitPreflight, "check", "--config", file)
	if names, want := problems(got), []string{"brokers/unreachable", "store/unwritable", "target/unreachable"}; !slices.Equal(names, want) {
		t.Errorf("got %+v, want %v", got, want)
	}
	if _, _, stderr := call(t, "check", "--config", file); stderr != "replicator: pipeline shop: the preflight found 3 errors\n" {
		t.Errorf("stderr %q", stderr)
	}
}
