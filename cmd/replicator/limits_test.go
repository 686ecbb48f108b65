package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"replicator/debezium/kafka/broker"
)

// limitRecord is a new row of a table with the key id, as Debezium writes it with a schema: numbers become integers and the rest texts.
func limitRecord(t *testing.T, table string, names []string, values []any) caseRecord {
	t.Helper()
	text := func(v any) string {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	var fields, pairs []string
	for i, name := range names {
		kind := `"string"`
		if _, number := values[i].(int); number {
			kind = `"int32"`
		}
		fields = append(fields, fmt.Sprintf(`{"type":%s,"optional":%t,"field":%s}`, kind, i > 0, text(name)))
		pairs = append(pairs, text(name)+":"+text(values[i]))
	}
	row := `"type":"struct","optional":true,"fields":[` + strings.Join(fields, ",") + `]`
	return caseRecord{
		topic: fmt.Sprintf("limit.%08x", hash(table)),
		key:   fmt.Appendf(nil, `{"schema":{"type":"struct","optional":false,"fields":[%s]},"payload":{%s}}`, fields[0], pairs[0]),
		value: fmt.Appendf(nil, `{"schema":{"type":"struct","optional":false,"fields":[{%[1]s,"field":"before"},{%[1]s,"field":"after"},`+
			`{"type":"struct","optional":false,"fields":[],"field":"source"},{"type":"string","optional":false,"field":"op"}]},`+
			`"payload":{"before":null,"after":{%[2]s},"source":{"connector":"mysql","name":"p","db":"shop","table":%[3]s,"snapshot":"false"},"op":"c"}}`,
			row, strings.Join(pairs, ","), text(table)),
	}
}

// produceAt is produce on any broker, with all records of a topic in as few batches as they fit in.
func (r *caseRun) produceAt(t *testing.T, b *broker.Broker, records ...caseRecord) {
	t.Helper()
	partitions := map[string]int32{}
	for _, rec := range records {
		partitions[rec.topic] = max(partitions[rec.topic], rec.partition+1)
	}
	for topic, n := range partitions {
		if err := b.CreateTopic(r.topic(topic), n, map[string]string{"max.message.bytes": "134217728"}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Produce(t.Context(), r.brokerRecords(records)...); err != nil {
		t.Fatal(err)
	}
}

// program is the command, built as users have it: the race detector multiplies its memory.
type program string

// run runs the command until it has caught up with a broker, and returns the most memory that it held.
func (p program) run(t *testing.T, r *caseRun, b *broker.Broker, args ...string) (peak int64) {
	t.Helper()
	config := strings.ReplaceAll(r.configText(t), strings.Join(caseBroker(t).Addrs(), ", "), strings.Join(b.Addrs(), ", "))
	c := exec.CommandContext(t.Context(), string(p), append([]string{"run", "--config", writeConfig(t, config), "--until-caught-up"}, args...)...)
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Wait() }()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
			return peak
		case <-look.C:
			peak = max(peak, mostResident(c.Process.Pid))
		}
	}
}

// mostResident is the most memory that a process has held until now, and 0 where Linux does not say. Its rusage at the end would count
// what its parent held when it was forked.
func mostResident(pid int) int64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	var kilobytes int64
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	if _, err := fmt.Sscan(after, &kilobytes); err != nil {
		return 0 // it has ended
	}
	return kilobytes << 10
}

// TestMemoryIsBoundedAtTheLimits measures the process at what is most of one kind.
func TestMemoryIsBoundedAtTheLimits(t *testing.T) {
	t.Parallel()
	p := program(filepath.Join(t.TempDir(), "replicator"))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", string(p), ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, run := range map[string]func(*testing.T, program){"a row of 64 MiB": rowOf64MiB, "many tables": manyTables, "1,000 partitions": thousandPartitions, "a large transaction": largeTransaction} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run(t, p)
		})
	}
}

// rowOf64MiB replicates a text of 64 MiB, in a record of its own size, within memory that is a small multiple of it.
func rowOf64MiB(t *testing.T, p program) {
	const size = 64 << 20
	b, err := broker.Start(broker.Options{Configs: map[string]string{"message.max.bytes": "134217728"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r := newCaseRun(t, &caseFile{})
	body := strings.Repeat("0123456789abcde\n", size/16)
	r.produceAt(t, b, limitRecord(t, "large", []string{"id", "body"}, []any{1, body}), limitRecord(t, "large", []string{"id", "body"}, []any{2, "small"}))
	peak := p.run(t, r, b)
	got := rowsText(r.exec(t, "SELECT id, length(body), left(body, 5), body = repeat(E'0123456789abcde\\n', 4194304) FROM large ORDER BY id"))
	if want := "\"1\" | \"67108864\" | \"01234\" | \"t\"\n\"2\" | \"5\" | \"small\" | \"f\"\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	t.Logf("at most %d MiB resident for a row of %d MiB", peak>>20, size>>20)
	if peak > 10*size {
		t.Errorf("the process held %d MiB for a row of %d MiB", peak>>20, size>>20)
	}
}

// TestTableOf1600Columns replicates rows of as many columns as PostgreSQL has in a table; one more is an error that says so.
func TestTableOf1600Columns(t *testing.T) {
	t.Parallel()
	const most = 1600
	r := newCaseRun(t, &caseFile{})
	names, values := []string{"id"}, []any{1}
	for i := 1; i < most; i++ {
		names, values = append(names, fmt.Sprintf("column_%d", i)), append(values, i)
	}
	var records []caseRecord
	for id := range 20 {
		values[0] = id
		records = append(records, limitRecord(t, "wide", names, values))
	}
	r.produce(t, records...)
	if code, stderr := r.run(t); code != exitDone {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	got := rowsText(r.exec(t, "SELECT count(*), sum(column_1599), min(column_800), count(DISTINCT id) FROM wide"))
	if want := fmt.Sprintf("\"20\" | \"%d\" | \"800\" | \"20\"\n", 20*1599); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	r.produce(t, limitRecord(t, "wider", append(names, "column_1600"), append(values, 1600)))
	code, stderr := r.run(t)
	r.stopped(t, code, stderr, "wider", "at most 1600 columns")
}

// TestRowsThatTheTargetCannotHoldStop: pages bound a row whose columns are many, and an entry of an index. Trying again would not help.
func TestRowsThatTheTargetCannotHoldStop(t *testing.T) {
	t.Parallel()
	texts, values := []string{"id"}, []any{1}
	for i := 1; i < 1600; i++ {
		texts, values = append(texts, fmt.Sprintf("c%d", i)), append(values, "more than a pointer")
	}
	noise := rand.New(rand.NewPCG(1, 2)) // what compresses would fit
	var long strings.Builder
	for range 1000 {
		fmt.Fprintf(&long, "%08x", noise.Uint32())
	}
	for name, c := range map[string]struct {
		make   string
		record caseRecord
		words  []string
	}{
		"row":   {"", limitRecord(t, "wide", texts, values), []string{"row is too big", "wide"}},
		"index": {"CREATE TABLE named (id int PRIMARY KEY, name text UNIQUE)", limitRecord(t, "named", []string{"id", "name"}, []any{1, long.String()}), []string{"index row", "named_name_key"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRun(t, &caseFile{})
			if c.make != "" {
				r.exec(t, c.make)
			}
			r.produce(t, c.record)
			code, stderr := r.run(t)
			r.stopped(t, code, stderr, append(c.words, "value_too_large", "offset 0", "id=1")...)
		})
	}
}

// manyTables replicates a row of each of very many tables, each with a topic of its own.
func manyTables(t *testing.T, p program) {
	const tables = 200
	b, err := broker.Start(broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r := newCaseRun(t, &caseFile{})
	var records []caseRecord
	for i := range tables {
		records = append(records, limitRecord(t, fmt.Sprintf("table_%d", i), []string{"id", "v"}, []any{i, "a"}))
	}
	r.produceAt(t, b, records...)
	peak := p.run(t, r, b)
	t.Logf("at most %d MiB resident for %d tables", peak>>20, tables)
	if peak > 300<<20 {
		t.Errorf("the process held %d MiB", peak>>20)
	}
	var sum strings.Builder
	for i := range tables {
		if sum.Len() > 0 {
			sum.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&sum, "SELECT id FROM table_%d", i)
	}
	got := rowsText(r.exec(t, "SELECT count(*), sum(id) FROM ("+sum.String()+") x"))
	if want := fmt.Sprintf("\"%d\" | \"%d\"\n", tables, tables*(tables-1)/2); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// thousandPartitions replicates a topic of 1,000 partitions.
func thousandPartitions(t *testing.T, p program) {
	const partitions = 1000
	b, err := broker.Start(broker.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r := newCaseRun(t, &caseFile{})
	var records []caseRecord
	for i := range 5 * partitions {
		rec := limitRecord(t, "spread", []string{"id", "v"}, []any{i, "a"})
		rec.partition = int32(i % partitions)
		records = append(records, rec)
	}
	r.produceAt(t, b, records...)
	peak := p.run(t, r, b)
	t.Logf("at most %d MiB resident for %d partitions", peak>>20, partitions)
	got := rowsText(r.exec(t, "SELECT count(*), sum(id) FROM spread"))
	if want := fmt.Sprintf("\"%d\" | \"%d\"\n", 5*partitions, 5*partitions*(5*partitions-1)/2); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if peak > 300<<20 {
		t.Errorf("the process held %d MiB", peak>>20)
	}
}

// scripts are names that differ although they look alike, or are longer than 63 bytes although they are not long.
var scripts = []string{
	"\u9867\u5ba2", "\u304a\u5ba2\u69d8", "고객", "клиент", "Πελάτης", "عميل", "לקוח", "ग्राहक", "ลูกค้า", "வாடிக்கையாளர்", "մատյան", "ደንበኛ", "🦜", "👩‍👩‍👧", "İı", "straße", "STRASSE", "ﬁ", "fi",
	"\u00e9", "e\u0301", "a\u200db", "ab", "A", "А", "Ａ", "𝒜",
	strings.Repeat("\u8a9e", 63) + "1", strings.Repeat("\u8a9e", 63) + "2",
}

// TestNamesInAnyScript makes a table for each name, with a column of that name: none becomes another's.
func TestNamesInAnyScript(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, &caseFile{})
	var records []caseRecord
	for i, name := range scripts {
		records = append(records, limitRecord(t, name, []string{"id", name}, []any{i, "value of " + name}))
	}
	r.produce(t, records...)
	if code, stderr := r.run(t); code != exitDone {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	tables := r.exec(t, `SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = 2
		WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r'`)
	if len(tables) != len(scripts) {
		t.Errorf("%d tables, want %d", len(tables), len(scripts))
	}
	found := map[string]bool{}
	for _, row := range tables {
		table, column := pgx.Identifier{*row[0]}.Sanitize(), pgx.Identifier{*row[1]}.Sanitize()
		if name := *row[0]; len(name) < 60 && *row[1] != name {
			t.Errorf("table %q has a column %q, want the same name", name, *row[1])
		}
		found[rowsText(r.exec(t, "SELECT id, "+column+" FROM "+table))] = true
	}
	for i, name := range scripts {
		if want := fmt.Sprintf("\"%d\" | %q\n", i, "value of "+name); !found[want] {
			t.Errorf("no table holds just %s", want)
		}
	}
}
