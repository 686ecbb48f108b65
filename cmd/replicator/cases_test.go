package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
	"replicator/txnsink/postgres/pgserver"
)

// caseRun is one run of a case: its own database and topics.
type caseRun struct {
	*caseFile
	url    string            // of its database
	target string            // what the configuration says: url, or a way through a breaker
	config map[string]string // --set
}

// world is the server and the broker that the tests of this package share. Each test has a database and topics of its own.
var world struct {
	server *pgserver.Server
	broker *broker.Broker
}

func TestMain(m *testing.M) {
	code, err := runTests(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func runTests(m *testing.M) (code int, err error) {
	flag.Parse()
	if flag.Lookup("test.fuzzworker").Value.String() == "true" {
		// The process that fuzzes and the one that started it talk by these. A server that inherits them would keep them open when it is gone.
		syscall.CloseOnExec(3)
		syscall.CloseOnExec(4)
	}
	if world.server, err = pgserver.Start(context.Background(), pgserver.Config{}); err != nil {
		return 1, fmt.Errorf("the tests need a PostgreSQL server: %w", err)
	}
	defer func() { err = errors.Join(err, world.server.Stop()) }()
	if world.broker, err = broker.Start(broker.Options{}); err != nil {
		return 1, err
	}
	defer world.broker.Close()
	return m.Run(), nil
}

func caseBroker(t *testing.T) *broker.Broker {
	t.Helper()
	return world.broker
}

func caseDatabase(t *testing.T, name string) string {
	t.Helper()
	if err := world.server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	return world.server.URL(name)
}

// TestCases runs the cases that need nothing but their events, once with all events in one checkpoint and once with a
// checkpoint after every event.
func TestCases(t *testing.T) {
	t.Parallel()
	for _, number := range []string{
		"01", "02", "03", "04", "06", "07", "09", "10", "11", "14", "16", "17", "18", "20", "22", "23",
		"25", "26", "27", "28", "30", "31", "33", "35", "40", "41", "63",
	} {
		for _, rows := range []string{"100000", "1"} {
			t.Run(number+"/rows="+rows, func(t *testing.T) {
				t.Parallel()
				c := loadCase(t, number)
				r := newCaseRun(t, c)
				r.config["checkpoint.rows"] = rows
				r.produce(t, c.records(t)...)
				if code, stderr := r.run(t); code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
				r.expect(t, c.result(t, ""))
			})
		}
	}
}

// TestCaseInAnotherZone runs case 07 in a process whose own zone is not UTC.
func TestCaseInAnotherZone(t *testing.T) {
	t.Parallel()
	c := loadCase(t, "07")
	r := newCaseRun(t, c)
	r.produce(t, c.records(t)...)
	program := filepath.Join(t.TempDir(), "replicator")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(program, "run", "--config", r.file(t), "--until-caught-up")
	cmd.Env = append(os.Environ(), "TZ=America/New_York")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	r.expect(t, c.result(t, ""))
}

// TestCheckpointsInADirectory runs case 25 with its checkpoints outside the target, a run for every event.
func TestCheckpointsInADirectory(t *testing.T) {
	t.Parallel()
	c := loadCase(t, "25")
	r := newCaseRun(t, c)
	r.config["checkpoint.store"] = "file:" + t.TempDir()
	for _, record := range c.records(t) {
		r.produce(t, record)
		if code, stderr := r.run(t); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
	}
	r.expect(t, c.result(t, ""))
	if rows := r.exec(t, "SELECT count(*) FROM replicator.checkpoints"); *rows[0][0] != "0" {
		t.Errorf("%s checkpoints in the target", *rows[0][0])
	}
}

// TestCaseNul runs case 13: text that PostgreSQL cannot hold.
func TestCaseNul(t *testing.T) {
	t.Parallel()
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		c := loadCase(t, "13")
		r := newCaseRun(t, c)
		r.produce(t, c.records(t)...)
		for range 2 { // and again after a restart
			code, stderr := r.run(t)
			r.stopped(t, code, stderr, "unstorable_value", "memo", "column body", "src1.shop.memo[0] offset 1", "id=2")
			r.expect(t, c.result(t, ""))
		}
	})
	t.Run("strip", func(t *testing.T) {
		t.Parallel()
		c := loadCase(t, "13")
		r := newCaseRun(t, c)
		r.config["schema.types.nul"] = "strip"
		r.produce(t, c.records(t)...)
		if code, stderr := r.run(t); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		r.expect(t, c.result(t, "with_replacement_option"))
	})
	for name, doc := range map[string]string{
		"jsonb escape":     `{"t":"a\u0000b"}`,
		"jsonb surrogate":  `{"t":"\ud800"}`,
		"jsonb no escape":  `{"t":"a\\u0000b"}`,
		"jsonb null":       `null`,
		"jsonb not a JSON": `{"t":`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := loadCase(t, "13")
			r := newCaseRun(t, c)
			first := c.records(t)[0]
			first.value = bytes.ReplaceAll(first.value, []byte(`"doc":"{}"`), fmt.Appendf(nil, `"doc":%s`, jsonString(doc)))
			r.produce(t, first)
			code, stderr := r.run(t)
			if name == "jsonb no escape" || name == "jsonb null" {
				if code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
				return
			}
			r.stopped(t, code, stderr, "_value", "memo", "src1.shop.memo[0] offset 0", "id=1")
		})
	}
}

// TestCaseVariants runs what the notes of the cases add.
func TestCaseVariants(t *testing.T) {
	t.Parallel()
	t.Run("01 schemaless precise decimal", func(t *testing.T) {
		t.Parallel()
		c := loadCase(t, "01")
		r := newCaseRun(t, c)
		rec := c.records(t)[0]
		rec.key, rec.value = payload(t, rec.key), payload(t, rec.value)
		r.produce(t, rec)
		code, stderr := r.run(t)
		r.stopped(t, code, stderr, "invalid_value", "column amount", "decimal.handling.mode")
	})
	for offset, want := range map[int]string{0: "value_out_of_range", 1: "value_out_of_range", 2: "", 3: "value_out_of_range"} {
		t.Run(fmt.Sprintf("04 time column, event %d", offset), func(t *testing.T) {
			t.Parallel()
			c := loadCase(t, "04")
			r := newCaseRun(t, c)
			r.exec(t, `ALTER TABLE shift ALTER lasted TYPE time(6) USING NULL`)
			r.produce(t, c.records(t)[offset])
			code, stderr := r.run(t)
			if want != "" {
				r.stopped(t, code, stderr, want, "column lasted")
			} else if code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
		})
	}
	t.Run("11 unknown label", func(t *testing.T) {
		t.Parallel()
		c := loadCase(t, "11")
		r := newCaseRun(t, c)
		rec := c.records(t)[1]
		rec.value = bytes.Replace(rec.value, []byte(`"size":"l"`), []byte(`"size":"xl"`), 1)
		r.produce(t, c.records(t)[0], rec)
		code, stderr := r.run(t)
		r.stopped(t, code, stderr, "invalid_value", "src1.shop.shirt[0] offset 1", "id=2")
	})
	t.Run("30 no such row", func(t *testing.T) {
		t.Parallel()
		c := loadCase(t, "30")
		r := newCaseRun(t, c)
		r.exec(t, `DELETE FROM sample WHERE site = 'b'`)
		r.produce(t, c.records(t)...)
		code, stderr := r.run(t)
		r.stopped(t, code, stderr, "missing_row", "src1.public.sample[0] offset 1")
	})
}

// TestCaseFailedPrepare runs case 57: a statement that the target refuses.
func TestCaseFailedPrepare(t *testing.T) {
	t.Parallel()
	c := loadCase(t, "57")
	r := newCaseRun(t, c)
	r.produce(t, c.records(t)...)
	for range 2 {
		code, stderr := r.run(t)
		r.stopped(t, code, stderr, "check_violation", "src1.public.pay[0] offset 1", "id=2")
		r.expect(t, c.result(t, ""))
	}
}

// jsonString quotes s.
func jsonString(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return b
}

// payload is what a message with a schema carries.
func payload(t *testing.T, message []byte) []byte {
	t.Helper()
	var v struct{ Payload json.RawMessage }
	if err := json.Unmarshal(message, &v); err != nil {
		t.Fatal(err)
	}
	return v.Payload
}

func hash(s string) uint32 {
	h := uint32(2166136261)
	for _, c := range []byte(s) {
		h = (h ^ uint32(c)) * 16777619
	}
	return h
}

// topic gives each run topics of its own: the broker is shared.
func (r *caseRun) topic(name string) string {
	return fmt.Sprintf("%08x.%s", hash(r.url), name)
}

func (r *caseRun) createTopics(t *testing.T, records []caseRecord) {
	t.Helper()
	partitions := map[string]int32{}
	for _, rec := range append(r.records(t), records...) {
		partitions[rec.topic] = max(partitions[rec.topic], rec.partition+1)
	}
	for _, topic := range slices.Sorted(maps.Keys(partitions)) {
		if err := caseBroker(t).CreateTopic(r.topic(topic), partitions[topic], nil); err != nil && !strings.Contains(err.Error(), "EXISTS") {
			t.Fatal(err)
		}
	}
}

func (r *caseRun) brokerRecords(records []caseRecord) []debezium.Record {
	var out []debezium.Record
	for _, rec := range records {
		d := debezium.Record{Partition: debezium.Partition{Topic: r.topic(rec.topic), ID: rec.partition}, Key: rec.key, Value: rec.value}
		for _, k := range slices.Sorted(maps.Keys(rec.headers)) {
			d.Headers = append(d.Headers, debezium.Header{Key: k, Value: rec.headers[k]})
		}
		out = append(out, d)
	}
	return out
}

// produce writes each record as a batch of its own, so that a checkpoint can be cut after each.
func (r *caseRun) produce(t *testing.T, records ...caseRecord) {
	t.Helper()
	r.createTopics(t, records)
	for _, rec := range r.brokerRecords(records) {
		if err := caseBroker(t).Produce(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
}

// file writes the run's configuration.
func (r *caseRun) file(t *testing.T) string {
	t.Helper()
	return writeConfig(t, r.configText(t))
}

func (r *caseRun) configText(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("pipeline: case-%08[2]x\nsource:\n  brokers: [%[1]s]\n  topics: ['%08[2]x\\..*']\ntarget:\n  url: %[3]s\nhttp: {listen: ''}\n",
		strings.Join(caseBroker(t).Addrs(), ", "), hash(r.url), r.target)
}

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// run runs the command until it has caught up.
func (r *caseRun) run(t *testing.T) (code int, stderr string) {
	t.Helper()
	return r.runContext(t.Context(), t)
}

// runContext is run, stopped when ctx is done as by a signal.
func (r *caseRun) runContext(ctx context.Context, t *testing.T) (code int, stderr string) {
	t.Helper()
	return r.runConfig(ctx, t, r.configText(t))
}

func (r *caseRun) runConfig(ctx context.Context, t *testing.T, config string) (code int, stderr string) {
	t.Helper()
	return r.runArgs(ctx, t, config)
}

func (r *caseRun) runArgs(ctx context.Context, t *testing.T, config string, more ...string) (code int, stderr string) {
	t.Helper()
	args := append([]string{"run", "--config", writeConfig(t, config), "--until-caught-up"}, more...)
	for _, k := range slices.Sorted(maps.Keys(r.config)) {
		args = append(args, "--set", k+"="+r.config[k])
	}
	var out, errs bytes.Buffer
	code = Main(ctx, args, strings.NewReader(""), &out, &errs)
	return code, errs.String()
}

// stopped checks that the run failed and that its last line says all of words.
func (r *caseRun) stopped(t *testing.T, code int, stderr string, words ...string) {
	t.Helper()
	if code != 1 {
		t.Fatalf("exit code %d, want 1:\n%s", code, stderr)
	}
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	last := strings.ReplaceAll(lines[len(lines)-1], fmt.Sprintf("%08x.", hash(r.url)), "")
	for _, w := range words {
		if !strings.Contains(last, w) {
			t.Errorf("the error does not say %q: %s", w, last)
		}
	}
}

func (r *caseRun) exec(t *testing.T, sql string) [][]*string {
	t.Helper()
	if isMySQL(r.url) {
		return r.execMySQL(t, sql)
	}
	ctx := context.WithoutCancel(t.Context())
	conn, err := pgconn.Connect(ctx, r.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := conn.Close(ctx); err != nil {
			t.Error(err)
		}
	}()
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	var rows [][]*string
	for _, row := range results[len(results)-1].Rows {
		var texts []*string
		for _, v := range row {
			if v == nil {
				texts = append(texts, nil)
				continue
			}
			s := string(v)
			texts = append(texts, &s)
		}
		rows = append(rows, texts)
	}
	return rows
}

// expect compares what the target holds, as text.
func (r *caseRun) expect(t *testing.T, want caseResult) {
	t.Helper()
	got, wanted := rowsText(r.exec(t, want.Query)), rowsText(want.Rows)
	if got != wanted {
		t.Errorf("%s\ngot\n%s\nwant\n%s", want.Query, got, wanted)
	}
}

func rowsText(rows [][]*string) string {
	var b strings.Builder
	for _, row := range rows {
		for i, v := range row {
			if i > 0 {
				b.WriteString(" | ")
			}
			if v == nil {
				b.WriteString("NULL")
			} else {
				fmt.Fprintf(&b, "%q", *v)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}
