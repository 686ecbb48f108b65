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
	topic := "p.shop." + table
	if err := s.broker.CreateTopic(topic, 1, nil); err != nil {
		t.Fatal(err)
	}
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

func levels(list []finding) map[string]string {
	m := map[string]string{}
	for _, f := range list {
		m[f.Check] = f.Level
	}
	return m
}

func TestCommandsOnAPipeline(t *testing.T) {
	t.Parallel()
	s := newStack(t, 10)
	want := map[string]string{
		"brokers": "ok", "topics": "error", "schema_changes": "warning", "target": "ok", "tls": "ok", "two-phase": "ok",
		"own tables": "ok", "schemas": "ok", "triggers": "ok", "store": "ok",
	}
	if got := levels(facts[[]finding](t, exitPreflight, "check", "--config", s.file)); !reflect.DeepEqual(got, want) {
		t.Errorf("check before there is a topic: got %v, want %v", got, want)
	}
	for _, args := range [][]string{{"checkpoints", "list"}, {"transactions", "list"}} {
		code, _, stderr := call(t, append(args, "--config", s.file)...)
		if code != exitFailed || !strings.Contains(stderr, "own tables are missing") {
			t.Errorf("%v before the first run: exit code %d, %s", args, code, stderr)
		}
	}
	s.produce(t, "t", "1", "2", "3")
	want["topics"] = "ok"
	if got := levels(facts[[]finding](t, exitDone, "check", "--config", s.file)); !reflect.DeepEqual(got, want) {
		t.Errorf("check: got %v, want %v", got, want)
	}
	if code, _, stderr := call(t, "run", "--config", s.file, "--until-caught-up", "--set", "schema.create=false"); code != exitFailed || !strings.Contains(stderr, "replicator: pipeline shop: unknown_table: table t") {
		t.Fatalf("run without the table: exit code %d\n%s", code, stderr)
	}
	define(t, s, "CREATE TABLE t (id int PRIMARY KEY, v text)")
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
	got := levels(facts[[]finding](t, exitPreflight, "check", "--config", s.file))
	if got["two-phase"] != levelError {
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
	want := finding{levelError, "target", "the server is a standby, and takes no writes", "name the primary, or both and target_session_attrs=read-write, in target.url"}
	if !slices.Contains(got, want) {
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
	var got []finding
	for _, table := range []string{"{table}", "crm.{table}"} {
		for _, f := range facts[[]finding](t, exitPreflight, "check", "--config", s.file, "--set", "target.url="+url, "--set", "target.table="+table) {
			if f.Level != levelOK && f.Check != "schema_changes" {
				got = append(got, f)
			}
		}
	}
	own := finding{levelError, "own tables", "role weak may not create schema replicator", "GRANT CREATE ON DATABASE postgres TO weak"}
	triggers := finding{
		levelWarning, "triggers", "role weak may not set session_replication_role: triggers and foreign keys of the target's tables are at work, and may refuse what the source allowed",
		"GRANT SET ON PARAMETER session_replication_role TO the role (PostgreSQL 15 and later), or make it a superuser",
	}
	want := []finding{
		own,
		{levelError, "schemas", "role weak may not create tables in schema public", "GRANT CREATE ON SCHEMA public TO weak, or create the tables and set schema.create: false"},
		triggers, own,
		{levelError, "schemas", "there is no schema crm", "CREATE SCHEMA it in the target; the replicator creates tables, not schemas"},
		triggers,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
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
	want := map[string]string{"brokers": levelError, "target": levelError, "store": levelError}
	if !reflect.DeepEqual(levels(got), want) {
		t.Errorf("got %+v, want %v", got, want)
	}
	if _, _, stderr := call(t, "check", "--config", file); stderr != "replicator: pipeline shop: the preflight found 3 errors\n" {
		t.Errorf("stderr %q", stderr)
	}
}
