package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
)

// clusterDaemons starts n runs of a case's pipeline that share it.
func (r *caseRun) clusterDaemons(t *testing.T, n int) []*daemon {
	t.Helper()
	file := writeConfig(t, r.configText(t)+"cluster: true\nmembership: {slots: 4, session_timeout: 6s}\n")
	var out []*daemon
	for range n {
		out = append(out, startDaemon(t, "run", "--config", file))
	}
	return out
}

// TestCasesInACluster runs cases 46 and 50 by two processes, and each once more by another: the second one has nothing to read, and must
// not stall.
func TestCasesInACluster(t *testing.T) {
	t.Parallel()
	for number, produce := range map[string]func(*caseRun, *testing.T){
		"46": func(r *caseRun, t *testing.T) { r.produce(t, r.records(t)...) },
		"50": (*caseRun).produceAborted,
	} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			r := newCaseRun(t, loadCase(t, number))
			produce(r, t)
			want := r.result(t, "")
			for _, n := range []int{2, 1} {
				daemons := r.clusterDaemons(t, n)
				eventually(t, "the case's rows", func() bool { return rowsText(r.exec(t, want.Query)) == rowsText(want.Rows) })
				for _, d := range daemons {
					d.stop(t)
				}
				r.expect(t, want)
			}
		})
	}
}

// TestCaseRebalanceBetweenPrepareAndCommit runs case 56: a process is frozen when it has prepared, another takes over and completes
// checkpoints, and then the first wakes up.
func TestCaseRebalanceBetweenPrepareAndCommit(t *testing.T) {
	t.Parallel()
	for _, shared := range []string{"cluster", "standby"} {
		t.Run(shared, func(t *testing.T) {
			t.Parallel()
			c := loadCase(t, "56")
			s := newClusterStack(t, shared+": true\n")
			define(t, s, "CREATE TABLE hit (id int, n int)")
			if err := s.broker.CreateTopic("p.shop.hit", 2, nil); err != nil {
				t.Fatal(err)
			}
			b, through := newBreaker(t, s.server.URL("postgres"), "PREPARE TRANSACTION 'replicator:shop", false)
			f := &fleet{s: &stack{server: s.server, broker: s.broker, file: configFile(t, strings.ReplaceAll(readText(t, s.file), hostOf(t, s.server.URL("postgres")), hostOf(t, through)))}}
			first := f.start(t)
			for _, rec := range c.records(t) {
				err := s.broker.Produce(t.Context(), debezium.Record{Partition: debezium.Partition{Topic: "p.shop.hit", ID: rec.partition}, Key: rec.key, Value: rec.value})
				if err != nil {
					t.Fatal(err)
				}
			}
			select {
			case <-b.fired:
			case <-time.After(2 * time.Minute):
				t.Fatal("nothing was prepared\n" + f.logs())
			}
			kill(t, first, syscall.SIGSTOP)
			b.mend()
			second := f.start(t)
			untilRows(t, s, "SELECT id::text FROM hit ORDER BY id", []string{"1", "2", "3", "4"}, f.logs)
			kill(t, first, syscall.SIGCONT)
			f.end(t, first, syscall.SIGTERM)
			f.end(t, second, syscall.SIGTERM)
			untilRows(t, s, "SELECT gid FROM pg_prepared_xacts", nil, f.logs)
			untilRows(t, s, "SELECT id || ' ' || count(*) FROM hit GROUP BY id ORDER BY id", []string{"1 1", "2 1", "3 1", "4 1"}, f.logs)
		})
	}
}

func hostOf(t *testing.T, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	return u.Host
}

// TestStandbyTakesOver: a process waits while another runs the pipeline. It takes over when that is killed, and when it stops.
func TestStandbyTakesOver(t *testing.T) {
	t.Parallel()
	s := newClusterStack(t, "standby: true\n")
	define(t, s, "CREATE TABLE entry (line text)")
	if err := s.broker.CreateTopic("p.shop.entry", 1, nil); err != nil {
		t.Fatal(err)
	}
	var lines []string
	f := &fleet{s: s}
	send := func() {
		line := fmt.Sprint("line ", len(lines))
		lines = append(lines, line)
		if err := s.broker.Produce(t.Context(), change("p.shop.entry", 0, "c", "null", `{"line":"`+line+`"}`)); err != nil {
			t.Fatal(err)
		}
		untilRows(t, s, "SELECT line FROM entry ORDER BY line", lines, f.logs)
	}
	first := f.start(t)
	send()
	second := f.start(t)
	epochs := query(t, s, "SELECT epoch::text FROM replicator.pipelines WHERE pipeline = 'shop'")
	send()
	if got := query(t, s, "SELECT epoch::text FROM replicator.pipelines WHERE pipeline = 'shop'"); !slices.Equal(got, epochs) {
		t.Errorf("the one that waits has raised the epoch from %v to %v", epochs, got)
	}
	f.end(t, first, syscall.SIGKILL)
	killed := time.Now()
	send()
	t.Logf("taken over %v after the other was killed, with a session of %v", time.Since(killed), session)
	third := f.start(t)
	send()
	f.end(t, second, syscall.SIGTERM)
	stopped := time.Now()
	send()
	t.Logf("taken over %v after the other had stopped", time.Since(stopped))
	f.end(t, third, syscall.SIGTERM)
	untilRows(t, s, "SELECT gid FROM pg_prepared_xacts", nil, f.logs)
	// By itself it goes on from where they were.
	lines = append(lines, "more")
	if err := s.broker.Produce(t.Context(), change("p.shop.entry", 0, "c", "null", `{"line":"more"}`)); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t, "run", "--config", s.file, "--set", "standby=false", "--until-caught-up"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	untilRows(t, s, "SELECT line FROM entry ORDER BY line", lines, f.logs)
}

// TestProcessesThatDoNotFitAreRefused: what is wrong is said, and those that run go on.
func TestProcessesThatDoNotFitAreRefused(t *testing.T) {
	t.Parallel()
	s := newClusterStack(t, "cluster: true\n")
	define(t, s, "CREATE TABLE entry (line text)")
	if err := s.broker.CreateTopic("p.shop.entry", 4, nil); err != nil {
		t.Fatal(err)
	}
	f := &fleet{s: s}
	one := f.start(t)
	if err := s.broker.Produce(t.Context(), change("p.shop.entry", 3, "c", "null", `{"line":"a"}`)); err != nil {
		t.Fatal(err)
	}
	untilRows(t, s, "SELECT line FROM entry", []string{"a"}, f.logs)
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--set", "delivery=one-phase"}, exitFailed, "another configuration"},
		{[]string{"--set", "target.table=x_{table}"}, exitFailed, "another configuration"},
		{[]string{"--set", "membership.slots=5"}, exitFailed, "set membership.slots to that"},
		{[]string{"--set", "cluster=false"}, exitFailed, "set cluster: true"},
		{[]string{"--set", "cluster=false", "--set", "standby=true"}, exitFailed, "another configuration"},
		{[]string{"--set", "membership.session_timeout=1h"}, exitFailed, "group.max.session.timeout.ms"},
		{[]string{"--until-caught-up"}, exitUsage, "by itself"},
		{[]string{"--from", "1"}, exitUsage, "by itself"},
		{[]string{"--set", "pipeline=shop+2.1"}, exitUsage, "is a slot of a cluster"},
	} {
		code, _, stderr := call(t, append([]string{"run", "--config", s.file}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, want %d and %q: %s", c.args, code, c.code, c.want, stderr)
		}
	}
	if err := s.broker.Produce(t.Context(), change("p.shop.entry", 2, "c", "null", `{"line":"b"}`)); err != nil {
		t.Fatal(err)
	}
	untilRows(t, s, "SELECT line FROM entry ORDER BY line", []string{"a", "b"}, f.logs)
	slot := fmt.Sprintf("pipeline=shop+2.%d", checkpoint.SlotOf(debezium.Partition{Topic: "p.shop.entry", ID: 3}, 12))
	if list := facts[[]checkpointFacts](t, exitDone, "checkpoints", "list", "--config", s.file, "--set", slot); len(list) == 0 {
		t.Error("commands do not show a slot's checkpoints")
	}
	f.end(t, one, syscall.SIGTERM)
}

// TestWhatCannotBeSharedIsRefused: rows whose order in two partitions matters, where the partitions are in several slots.
func TestWhatCannotBeSharedIsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		table      string
		partitions int32
		record     debezium.Record
		want       string // empty: it is applied
	}{
		"no key, an insert":         {"line text", 2, change("p.shop.entry", 1, "c", "null", `{"line":"a"}`), ""},
		"no key, a delete":          {"line text", 2, change("p.shop.entry", 1, "d", `{"line":"a"}`, "null"), "has no key"},
		"a unique index":            {"line text PRIMARY KEY, n int UNIQUE", 2, keyed(change("p.shop.entry", 1, "c", "null", `{"line":"a","n":1}`)), "unique index"},
		"one partition":             {"line text PRIMARY KEY, n int UNIQUE", 1, keyed(change("p.shop.entry", 0, "c", "null", `{"line":"a","n":1}`)), ""},
		"a key":                     {"line text PRIMARY KEY, n int", 2, keyed(change("p.shop.entry", 1, "c", "null", `{"line":"a","n":1}`)), ""},
		"a truncate":                {"line text PRIMARY KEY, n int", 2, change("p.shop.entry", 1, "t", "null", "null"), "truncated"},
		"a truncate, one partition": {"line text PRIMARY KEY, n int", 1, change("p.shop.entry", 0, "t", "null", "null"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRun(t, loadCase(t, "46"))
			r.exec(t, "CREATE TABLE entry ("+c.table+")")
			topic := r.topic("shop.entry")
			if err := caseBroker(t).CreateTopic(topic, c.partitions, nil); err != nil {
				t.Fatal(err)
			}
			c.record.Partition.Topic = topic
			if err := caseBroker(t).Produce(t.Context(), c.record); err != nil {
				t.Fatal(err)
			}
			d := r.clusterDaemons(t, 1)[0]
			if c.want == "" {
				at := fmt.Sprintf(`SELECT count(*) FROM replicator.checkpoints WHERE document::text LIKE '%%"topic":"%s","partition":%d,"offset":1%%'`, topic, c.record.Partition.ID)
				eventually(t, "the record is in a checkpoint", func() bool {
					return len(r.exec(t, "SELECT 1 WHERE to_regclass('replicator.checkpoints') IS NOT NULL")) > 0 && *r.exec(t, at)[0][0] != "0"
				})
				d.stop(t)
				return
			}
			if code := <-d.code; code != exitFailed || !strings.Contains(d.errs.String(), c.want) || !strings.Contains(d.errs.String(), "cannot be shared") {
				t.Errorf("exit code %d, want %q: %s", code, c.want, d.errs.String())
			}
		})
	}
}

// keyed gives a record the key of its line.
func keyed(r debezium.Record) debezium.Record {
	r.Key = []byte(`{"line":"a"}`)
	return r
}

// TestSlotsChangeOneTable: the rows of all partitions of a topic have a new column and a wider type at once, and each slot brings the target's
// table there.
func TestSlotsChangeOneTable(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, loadCase(t, "50"))
	topic := r.topic("shop.thing")
	const partitions = 8
	if err := caseBroker(t).CreateTopic(topic, partitions, nil); err != nil {
		t.Fatal(err)
	}
	daemons := r.clusterDaemons(t, 2)
	number := 0
	send := func(fields, rest string) {
		t.Helper()
		var records []debezium.Record
		for p := range int32(partitions) {
			number++
			schema := `{"type":"struct","optional":true,"fields":[{"type":"int32","optional":false,"field":"id"}` + fields + `],"name":"s.Value","field":"%s"}`
			value := fmt.Sprintf(`{"schema":{"type":"struct","fields":[`+schema+`,`+schema+`,{"type":"struct","fields":[],"field":"source"},{"type":"string","field":"op"}]},`+
				`"payload":{"before":null,"after":{"id":%d%s},"source":{"connector":"postgresql","name":"s","db":"d","schema":"shop","table":"thing"},"op":"c"}}`,
				"before", "after", number, rest)
			records = append(records, debezium.Record{
				Partition: debezium.Partition{Topic: topic, ID: p},
				Key:       fmt.Appendf(nil, `{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],"name":"s.Key"},"payload":{"id":%d}}`, number),
				Value:     []byte(value),
			})
		}
		if err := caseBroker(t).Produce(t.Context(), records...); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the rows", func() bool {
			return len(r.exec(t, "SELECT 1 WHERE to_regclass('thing') IS NOT NULL")) > 0 && *r.exec(t, "SELECT count(*) FROM thing")[0][0] == fmt.Sprint(number)
		})
	}
	send("", "")
	send(`,{"type":"int16","optional":true,"field":"a"}`, `,"a":1`)
	send(`,{"type":"int64","optional":true,"field":"a"},{"type":"string","optional":true,"field":"b"}`, `,"a":3000000000,"b":"x"`)
	for _, d := range daemons {
		d.stop(t)
	}
	r.expect(t, caseResult{
		Query: "SELECT a::text, b, count(*) FROM thing GROUP BY 1, 2 ORDER BY 1 NULLS FIRST",
		Rows:  [][]*string{{nil, nil, ptr("8")}, {ptr("1"), nil, ptr("8")}, {ptr("3000000000"), ptr("x"), ptr("8")}},
	})
}
