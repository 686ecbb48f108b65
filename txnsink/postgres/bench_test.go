package postgres

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// accountShape is a row of about 300 bytes, as the benchmark of the whole pipeline has them.
var accountShape = &debezium.Shape{Fields: []debezium.Field{
	{Name: "id", Type: debezium.Int64},
	{Name: "owner", Type: debezium.String},
	{Name: "email", Type: debezium.String},
	{Name: "balance", Type: debezium.Bytes, Semantic: "org.apache.kafka.connect.data.Decimal", Params: map[string]string{"scale": "2"}},
	{Name: "state", Type: debezium.String, Semantic: "io.debezium.data.Enum", Params: map[string]string{"allowed": "open,held,shut"}},
	{Name: "visits", Type: debezium.Int32},
	{Name: "note", Type: debezium.String, Optional: true},
	{Name: "opened_at", Type: debezium.Int64, Semantic: "io.debezium.time.MicroTimestamp"},
	{Name: "seen_at", Type: debezium.String, Semantic: "io.debezium.time.ZonedTimestamp"},
}}

func account(op debezium.Op, i int) debezium.Event {
	return debezium.Event{Op: op, Offset: int64(i), After: debezium.Row{Shape: accountShape, Values: []debezium.Value{
		intValue(int64(i)), stringValue("Owner 0123456789abcdef0123456789abcdef"), stringValue("0123456789abcdef0123456789abcdef@example.org"),
		stringValue("AeJA"), stringValue("held"), intValue(int64(i % 1000)), stringValue(strings.Repeat("0123456789abcdef", 4)),
		intValue(1_709_210_096_789_012 + int64(i)), stringValue("2024-06-01T00:00:00Z"),
	}}}
}

// serverCPU is the CPU time in seconds that the backends of a database have taken.
func serverCPU(b *testing.B, c *pgx.Conn) float64 {
	rows, err := c.Query(b.Context(), "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	if err != nil {
		b.Fatal(err)
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		b.Fatal(err)
	}
	var ticks float64
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		for _, f := range fields[11:13] { // utime and stime, see proc(5)
			n, err := strconv.ParseFloat(f, 64)
			if err != nil {
				b.Fatal(err)
			}
			ticks += n
		}
	}
	return ticks / 100
}

// BenchmarkApply applies batches of 20,000 rows in a transaction each: new rows, and updates of stored ones.
func BenchmarkApply(b *testing.B) {
	const rows = 20_000
	for _, c := range []struct {
		name string
		op   debezium.Op
	}{{"create", debezium.Create}, {"update", debezium.Update}} {
		b.Run(c.name, func(b *testing.B) {
			name := fmt.Sprintf("b%d", databases.Add(1))
			if err := server.CreateDatabase(b.Context(), name); err != nil {
				b.Fatal(err)
			}
			url := server.URL(name)
			if err := Up(b.Context(), url); err != nil {
				b.Fatal(err)
			}
			s, err := Open(b.Context(), Config{URL: url, Pipeline: name})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close()
			ddl, err := tableFor(s.Dialect(), accountShape)
			if err != nil {
				b.Fatal(err)
			}
			if err := s.Define(b.Context(), txnsink.Definition{DDL: ddl}); err != nil {
				b.Fatal(err)
			}
			if err := s.Fence(b.Context(), name, 1, 1); err != nil {
				b.Fatal(err)
			}
			target := newTarget(b, s, "account")
			batch := sqlgen.NewBatch(s.Dialect())
			probe, err := pgx.Connect(b.Context(), url)
			if err != nil {
				b.Fatal(err)
			}
			defer closeConn(probe)
			next, checkpoint := 0, int64(1)
			apply := func(op debezium.Op, from int) {
				for i := range rows {
					e := account(op, from+i)
					if err := batch.Add(target, &e); err != nil {
						b.Fatal(err)
					}
				}
				txn, err := s.Begin(b.Context(), txnsink.ID{Pipeline: name, Epoch: 1, Checkpoint: checkpoint})
				if err == nil {
					err = txn.Apply(b.Context(), batch.Statements())
				}
				if err == nil {
					err = txn.Commit(b.Context(), nil)
				}
				if err != nil {
					b.Fatal(err)
				}
				batch.Reset()
				checkpoint++
			}
			if c.op == debezium.Update {
				apply(debezium.Create, 0)
			}
			before := serverCPU(b, probe)
			b.ReportAllocs()
			for b.Loop() {
				apply(c.op, next)
				if c.op == debezium.Create {
					next += rows
				}
			}
			n := float64(rows) * float64(b.N)
			b.ReportMetric(n/b.Elapsed().Seconds(), "rows/s")
			b.ReportMetric((serverCPU(b, probe)-before)*1e6/n, "server-µs/row")
		})
	}
}

func tableFor(d sqlgen.Dialect, shape *debezium.Shape) ([]string, error) {
	e := debezium.Event{Op: debezium.Create, After: debezium.Row{Shape: shape}, Key: debezium.Row{Shape: &debezium.Shape{Fields: shape.Fields[:1]}}}
	t, err := d.TargetTable(debezium.TableFromEvent(&e), schema.Name{Table: "account"}, sqlgen.Options{})
	if err != nil {
		return nil, err
	}
	return d.CreateTable(t), nil
}
