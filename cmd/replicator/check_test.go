package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
	"replicator/txnsink/postgres/preflight"
)

// checked is a pipeline of a table t of database shop, of which nothing is there yet.
type checked struct {
	*changingRun
	broker    *broker.Broker
	described bool // the schema-change topic is there
	set       []string
}

// newChecked returns a pipeline to an empty database that others look at too; exec, runs and asRole give it one of its own.
func newChecked(t *testing.T, empty string) *checked {
	t.Helper()
	run := &caseRun{caseFile: &caseFile{}, url: empty, target: empty, config: map[string]string{}}
	return &checked{changingRun: &changingRun{caseRun: run, prefix: fmt.Sprintf("checked-%08x", hash(t.Name()))}, broker: caseBroker(t)}
}

// own gives the run a database of its own.
func (r *checked) own(t *testing.T) {
	t.Helper()
	if name := strings.ReplaceAll(r.prefix, "-", "_"); databaseOf(t, r.url) != name {
		r.url = caseDatabase(t, name)
		r.target = r.url
	}
}

func (r *checked) exec(t *testing.T, sql string) {
	t.Helper()
	r.own(t)
	r.caseRun.exec(t, strings.ReplaceAll(sql, "DATABASE current", "DATABASE "+databaseOf(t, r.url)))
}

// history makes the schema-change topic.
func (r *checked) history(t *testing.T, configs ...string) {
	t.Helper()
	if !r.described {
		r.createTopic(t, r.prefix, 1, configs...)
	}
	r.described = true
}

func (r *checked) createTopic(t *testing.T, name string, partitions int32, configs ...string) {
	t.Helper()
	set := map[string]string{}
	for i := 0; i < len(configs); i += 2 {
		set[configs[i]] = configs[i+1]
	}
	if err := r.broker.CreateTopic(name, partitions, set); err != nil {
		t.Fatal(err)
	}
}

// rows is the topic of the table.
func (r *checked) rows() string { return r.prefix + ".shop.t" }

// table makes the topic of the rows and describes the table.
func (r *checked) table(t *testing.T, columns ...string) {
	t.Helper()
	r.createTopic(t, r.rows(), 1)
	r.describe(t, columns...)
}

func (r *checked) describe(t *testing.T, columns ...string) {
	t.Helper()
	if len(columns) == 0 {
		columns = []string{"id", "INT", "v", "VARCHAR"}
	}
	r.history(t, "retention.ms", "-1")
	r.ddl(t, "CREATE TABLE t", "t", columns...)
}

// send writes a change of a row with a key, or none if it is empty. edits are pairs of what to replace and by what.
func (r *checked) send(t *testing.T, partition int32, key, op, before, after string, edits ...string) {
	t.Helper()
	value := fmt.Sprintf(`{"before":%s,"after":%s,%s,"op":%q,"ts_ms":1}`, before, after, r.source("t"), op)
	rec := debezium.Record{Partition: debezium.Partition{Topic: r.rows(), ID: partition}, Value: []byte(strings.NewReplacer(edits...).Replace(value))}
	if key != "" {
		rec.Key = []byte(key)
	}
	if err := r.broker.Produce(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
}

// good is a table with a row that nothing is to be said about.
func (r *checked) good(t *testing.T, columns ...string) {
	t.Helper()
	r.table(t, columns...)
	r.send(t, 0, `{"id":1}`, "r", "null", `{"id":1,"v":"x"}`)
}

// preserve keeps transactions whole.
func (r *checked) preserve(t *testing.T) {
	t.Helper()
	topic := r.prefix + ".transaction"
	r.createTopic(t, topic, 1)
	r.set = []string{"source.transactions=" + topic, "source_transactions=preserve"}
}

func (r *checked) config() string {
	return fmt.Sprintf("pipeline: %[1]s\nsource:\n  brokers: ['%[2]s']\n  topics: ['%[1]s\\.shop\\..*']\n  schema_changes: %[1]s\ntarget: {url: '%[3]s'}\nhttp: {listen: ''}\n",
		r.prefix, strings.Join(r.broker.Addrs(), "','"), r.target)
}

// runs runs the pipeline until it has caught up.
func (r *checked) runs(t *testing.T) {
	t.Helper()
	r.own(t)
	if code, stderr := r.runConfig(t.Context(), t, r.config()); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
}

// found runs check and returns the findings that are not ok, once each. That the test's server does not sync is left out.
func (r *checked) found(t *testing.T) []string {
	t.Helper()
	args := []string{"check", "--json", "--config", writeConfig(t, r.config())}
	for _, s := range r.set {
		args = append(args, "--set", s)
	}
	return checkFinds(t, args...)
}

// checkFinds runs check with --json and returns the names of what is not ok.
func checkFinds(t *testing.T, args ...string) []string {
	t.Helper()
	code, stdout, stderr := call(t, args...)
	var list []finding
	if err := json.Unmarshal([]byte(stdout), &list); err != nil {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	want := exitDone
	for _, f := range list {
		if f.Level == levelError {
			want = exitPreflight
		}
		if f.Level != levelOK {
			t.Logf("%s %s: %s: %s", f.Level, f.name(), f.Message, f.Do)
		}
	}
	if code != want {
		t.Errorf("exit code %d, want %d: %s", code, want, stderr)
	}
	return problems(list)
}

// problems are the names of what is not ok, sorted, once each. That the tests' server does not sync is left out.
func problems(list []finding) []string {
	names := []string{}
	for _, f := range list {
		if f.Level != levelOK && f.name() != "settings/durability" {
			names = append(names, f.name())
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// asRole has the pipeline log in as a role without rights but those that sql grants; role stands for it there.
func (r *checked) asRole(t *testing.T, sql string) {
	t.Helper()
	r.own(t)
	role := "role_" + databaseOf(t, r.url)
	r.exec(t, "CREATE ROLE "+role+" LOGIN; GRANT CREATE ON DATABASE current TO "+role+"; GRANT CREATE, USAGE ON SCHEMA public TO "+role)
	r.exec(t, strings.ReplaceAll(sql, "ROLE", role))
	r.target = as(t, r.url, role)
}

// keyless describes the table as one without a key.
func (r *checked) keyless(t *testing.T) {
	t.Helper()
	r.history(t, "retention.ms", "-1")
	r.write(t, r.prefix, fmt.Sprintf(`{%s,"databaseName":"shop","ddl":"CREATE TABLE t","tableChanges":[{"type":"CREATE","id":"\"shop\".\"t\"","table":{"primaryKeyColumnNames":[],"columns":[
		{"name":"id","typeName":"INT","typeExpression":"INT","position":1,"optional":true},{"name":"v","typeName":"VARCHAR","typeExpression":"VARCHAR","length":40,"charsetName":"utf8mb4","position":2,"optional":true}]}}]}`, r.source("t")))
}

// typed writes a snapshot's row with a schema, of which fields are the row's.
func (r *checked) typed(t *testing.T, fields, row string) {
	t.Helper()
	const source = `{"type":"struct","optional":false,"field":"source","fields":[{"field":"connector","type":"string"},{"field":"name","type":"string"},{"field":"ts_ms","type":"int64"},{"field":"snapshot","type":"string"},{"field":"db","type":"string"},{"field":"table","type":"string"},{"field":"server_id","type":"int64"},{"field":"file","type":"string"},{"field":"pos","type":"int64"},{"field":"row","type":"int32"}]}`
	image := func(name string) string {
		return fmt.Sprintf(`{"type":"struct","optional":true,"field":%q,"fields":[%s]}`, name, fields)
	}
	value := fmt.Sprintf(`{"schema":{"type":"struct","optional":false,"name":"Envelope","fields":[%s,%s,%s,{"field":"op","type":"string"},{"field":"ts_ms","type":"int64"}]},"payload":{"before":null,"after":%s,%s,"op":"r","ts_ms":1}}`,
		image("before"), image("after"), source, row, r.source("t"))
	rec := debezium.Record{
		Partition: debezium.Partition{Topic: r.rows()}, Value: []byte(value),
		Key: []byte(`{"schema":{"type":"struct","optional":false,"fields":[{"field":"id","type":"int32","optional":false}]},"payload":{"id":1}}`),
	}
	if err := r.broker.Produce(t.Context(), rec); err != nil {
		t.Fatal(err)
	}
}

// TestCheckFindsEachThingThatWillGoWrong and nothing else.
func TestCheckFindsEachThingThatWillGoWrong(t *testing.T) {
	t.Parallel()
	empty := caseDatabase(t, "checked_empty")
	for name, c := range preflights {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newChecked(t, empty)
			c.make(t, r)
			if got := strings.Join(r.found(t), " "); got != c.want {
				t.Errorf("found %q, want %q", got, c.want)
			}
		})
	}
}

// TestCheckFindsWhatNoServerOfTheTestsIs: releases too old to be run here, and disks that are full.
func TestCheckFindsWhatNoServerOfTheTestsIs(t *testing.T) {
	t.Parallel()
	var f findings
	checkVersion(&preflight.Facts{Version: 110022, Release: "11.22"}, &f)
	checkDisk("postgres://127.0.0.1/d", t.TempDir(), 1<<62, &f)
	checkDisk("postgres://db.example/d", t.TempDir(), 1<<62, &f) // a disk of another machine
	checkStoreDisk("d", t.TempDir(), 1<<62, &f)
	var got []string
	for _, x := range f.list {
		got = append(got, x.name())
	}
	if want := []string{"target/old", "disk/low", "store/disk"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

var (
	findingInCode = regexp.MustCompile(`\b(warn|fail)\(\s*"([a-z_ -]+/[a-z_]+)"`)
	findingInDocs = regexp.MustCompile("(?m)^\\| `([a-z_ -]+/[a-z_]+)` \\| (error|warning|either) \\|")
)

// TestEveryFindingIsExplainedAndProduced: docs/check.md has a line for each finding of the code and no other, and a test names it.
func TestEveryFindingIsExplainedAndProduced(t *testing.T) {
	t.Parallel()
	level := map[string]string{"warn": "warning", "fail": "error"}
	code := map[string]string{}
	for _, m := range findingInCode.FindAllStringSubmatch(sources(t, "check_*.go", false), -1) {
		if was := code[m[2]]; was != "" && was != level[m[1]] {
			code[m[2]] = "either"
			continue
		}
		code[m[2]] = level[m[1]]
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "check.md"))
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	for _, m := range findingInDocs.FindAllStringSubmatch(string(page), -1) {
		docs[m[1]] = m[2]
	}
	tests := sources(t, "*_test.go", true)
	for name, level := range code {
		if docs[name] != level {
			t.Errorf("docs/check.md has %s as %q, and it is of level %s", name, docs[name], level)
		}
		if !regexp.MustCompile(`[" ]` + name + `[" ]`).MatchString(tests) {
			t.Errorf("no test produces %s", name)
		}
	}
	for name := range docs {
		if code[name] == "" {
			t.Errorf("docs/check.md has %s, and nothing finds it", name)
		}
	}
}

// sources is the text of files, of tests or of the program.
func sources(t *testing.T, pattern string, tests bool) string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") != tests {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}

// TestCheckOfWhatDebeziumWrote finds in recorded streams what their connectors were told, and no more: tables were altered on the way.
func TestCheckOfWhatDebeziumWrote(t *testing.T) {
	t.Parallel()
	const always = "keys/none names/long schema_changes/retention" // as the source's tables are, and the tests' topics
	for connector, want := range map[string]string{
		"plain": always,
		"avro":  always,
		"loose": "connector/decimal " + always,
		"flat":  "connector/before connector/flattened " + always,
	} {
		t.Run(connector, func(t *testing.T) {
			t.Parallel()
			c := captureWithDDL(t, connector, "checked")
			args := []string{"check", "--json", "--config", writeConfig(t, c.config)}
			for key, value := range c.caseRun.config {
				args = append(args, "--set", key+"="+value)
			}
			if got := strings.Join(checkFinds(t, args...), " "); got != want {
				t.Errorf("found %q, want %q", got, want)
			}
			if connector != "plain" {
				return
			}
			if code, stderr := c.runConfig(t.Context(), t, c.config); code != exitDone {
				t.Fatal(stderr)
			}
			if got := strings.Join(checkFinds(t, args...), " "); got != want {
				t.Errorf("after a run: found %q, want %q", got, want)
			}
		})
	}
}
