package mysql

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
	"replicator/txnsink/mysql/mysqlserver"
)

// accountShape is a row of about 300 bytes, as the benchmark of the whole pipeline has them.
var accountShape = &debezium.Shape{Fields: []debezium.Field{
	{Name: "id", Type: debezium.Int64},
	{Name: "owner", Type: debezium.String},
	{Name: "email", Type: debezium.String},
	{Name: "balance", Type: debezium.Bytes, Semantic: "org.apache.kafka.connect.data.Decimal", Params: map[string]string{"scale": "2"}},
	{Name: "state", Type: debezium.String},
	{Name: "visits", Type: debezium.Int32},
	{Name: "note", Type: debezium.String, Optional: true},
	{Name: "opened_at", Type: debezium.Int64, Semantic: "io.debezium.time.MicroTimestamp"},
	{Name: "seen_at", Type: debezium.String, Semantic: "io.debezium.time.ZonedTimestamp"},
}}

const accountDDL = `CREATE TABLE account (id bigint PRIMARY KEY, owner varchar(60) NOT NULL, email varchar(80) NOT NULL, balance decimal(14,2) NOT NULL,
	state enum('open','held','shut') NOT NULL, visits int NOT NULL, note varchar(120), opened_at datetime(6) NOT NULL, seen_at timestamp(6) NOT NULL)
	ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin`

func account(op debezium.Op, i int) debezium.Event {
	text := func(s string) debezium.Value { return debezium.Value{Kind: debezium.StringValue, Text: s} }
	number := func(n int) debezium.Value { return debezium.Value{Kind: debezium.IntValue, Num: int64(n)} }
	return debezium.Event{Op: op, Offset: int64(i), After: debezium.Row{Shape: accountShape, Values: []debezium.Value{
		number(i), text("Owner 0123456789abcdef0123456789abcdef"), text("0123456789abcdef0123456789abcdef@example.org"),
		text("AeJA"), text("held"), number(i % 1000), text(strings.Repeat("0123456789abcdef", 4)),
		number(1_709_210_096_789_012 + i), text("2024-06-01T00:00:00Z"),
	}}}
}

// BenchmarkApply applies batches of 20,000 rows in a transaction each: new rows that are loaded, new rows that are inserted, as where
// local_infile is off, and updates of stored ones.
func BenchmarkApply(b *testing.B) {
	for _, kind := range mysqlserver.Kinds() {
		for _, c := range []struct {
			name string
			op   debezium.Op
			load bool
		}{{"load", debezium.Create, true}, {"insert", debezium.Create, false}, {"update", debezium.Update, true}} {
			b.Run(fmt.Sprintf("server=%s/rows=%s", kind, c.name), func(b *testing.B) { benchmarkApply(b, kind, c.op, c.load) })
		}
	}
}

func benchmarkApply(b *testing.B, kind mysqlserver.Kind, op debezium.Op, load bool) {
	const rows = 20_000
	server, err := servers[kind]()
	if err != nil {
		b.Fatal(err)
	}
	url := newDatabase(b, server)
	execute(b, url, accountDDL)
	s := open(b, Config{URL: url, Pipeline: pipelineOf(url)})
	s.facts.loads = load
	if err := s.Fence(b.Context(), s.config.Pipeline, 1, 1); err != nil {
		b.Fatal(err)
	}
	found, err := s.Table(b.Context(), schema.Name{Table: "account"})
	if err != nil {
		b.Fatal(err)
	}
	target, err := sqlgen.NewTarget(s.Dialect(), *found, sqlgen.TargetConfig{})
	if err != nil {
		b.Fatal(err)
	}
	batch := sqlgen.NewBatch(s.Dialect())
	checkpoint := int64(0)
	apply := func(op debezium.Op, from int) {
		for i := range rows {
			e := account(op, from+i)
			if err := batch.Add(target, &e); err != nil {
				b.Fatal(err)
			}
		}
		checkpoint++
		tx, err := s.Begin(b.Context(), txnsink.ID{Pipeline: s.config.Pipeline, Epoch: 1, Checkpoint: checkpoint})
		if err == nil {
			err = tx.Apply(b.Context(), batch.Statements())
		}
		if err == nil {
			err = tx.Commit(b.Context(), nil)
		}
		if err != nil {
			b.Fatal(err)
		}
		batch.Reset()
	}
	next := 0
	if op == debezium.Update {
		apply(debezium.Create, 0)
	}
	before := serverCPU(b, url)
	b.ReportAllocs()
	for b.Loop() {
		apply(op, next)
		if op == debezium.Create {
			next += rows
		}
	}
	n := float64(rows) * float64(b.N)
	b.ReportMetric(n/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric((serverCPU(b, url)-before)*1e6/n, "server-µs/row")
}

// serverCPU is the processor time in seconds that a server on this machine has taken.
func serverCPU(b *testing.B, url string) float64 {
	pid, err := os.ReadFile(query(b, url, "SELECT @@pid_file")[0])
	if err != nil {
		b.Fatal(err)
	}
	stat, err := os.ReadFile("/proc/" + strings.TrimSpace(string(pid)) + "/stat")
	if err != nil {
		b.Fatal(err)
	}
	var ticks float64
	for _, f := range strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))[11:13] { // utime and stime, see proc(5)
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			b.Fatal(err)
		}
		ticks += n
	}
	return ticks / 100
}
