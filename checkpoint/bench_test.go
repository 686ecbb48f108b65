//go:build unix

package checkpoint_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
	"replicator/txnsink/sinktest"
)

// BenchmarkPipeline is a whole run, from records to PostgreSQL's statements, which go nowhere: what an event costs this program,
// and how that grows. ns/event is of the processor's time, of all cores, the collector's included. Each line changes one of the
// events, the columns of a table, the tables, the partitions, the rows of a checkpoint, the lanes and, where they are kept whole, the
// events of a source's transaction of the first.
func BenchmarkPipeline(b *testing.B) {
	first := load{events: 20_000, columns: 8, tables: 1, partitions: 1, rows: 10_000, lanes: 1}
	for _, change := range []func(*load){
		func(*load) {},
		func(l *load) { l.events = 2_000 },
		func(l *load) { l.events = 200_000 },
		func(l *load) { l.columns = 32 },
		func(l *load) { l.tables = 100 },
		func(l *load) { l.partitions = 16 },
		func(l *load) { l.rows = 100 },
		func(l *load) { l.rows = 100_000 },
		func(l *load) { l.lanes = 4 },
		func(l *load) { l.transaction = 10 },
		func(l *load) { l.transaction = 1_000 },
		func(l *load) { l.transaction = l.events },
	} {
		l := first
		change(&l)
		b.Run(l.String(), l.run)
	}
}

// load is what a benchmark's pipeline has to do: inserts, then as many updates of the same rows. transaction: of so many events, of one
// table; 0: the source's transactions are not kept whole.
type load struct{ events, columns, tables, partitions, rows, lanes, transaction int }

func (l load) String() string {
	return fmt.Sprintf("events=%d/columns=%d/tables=%d/partitions=%d/rows=%d/lanes=%d/transaction=%d",
		l.events, l.columns, l.tables, l.partitions, l.rows, l.lanes, l.transaction)
}

func (l load) run(b *testing.B) {
	source := l.source()
	var whole *checkpoint.WholeTransactions
	if l.transaction > 0 {
		whole = &checkpoint.WholeTransactions{
			Topic: transactionTopic.Topic, Wait: time.Minute, Broken: checkpoint.StopAtBroken, Memory: 1 << 30, Dir: b.TempDir(),
		}
	}
	b.ReportAllocs()
	began := processorTime(b)
	for b.Loop() {
		err := checkpoint.Run(b.Context(), checkpoint.Config{
			Pipeline: "p", Delivery: checkpoint.TwoPhase, Interval: time.Minute, MinInterval: time.Minute, Rows: l.rows, Bytes: 1 << 30, Retain: 3,
			Workers: l.lanes, Source: source, Sink: l.sink(), Store: &memoryStore{}, Log: slog.New(slog.DiscardHandler),
			Decoder: debezium.NewDecoder(debezium.DecoderConfig{}), Deduplicate: true, UntilCaughtUp: true, Whole: whole,
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	spent := processorTime(b) - began
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N*l.events), "ns/event")
}

func (l load) table(i int) string { return fmt.Sprintf("t%d", i) }

// source has batches of 200 records.
func (l load) source() *memoryLog {
	log := &memoryLog{}
	values := map[debezium.Partition][]string{}
	var markers []string
	for i := range l.events {
		id, table, op := i%(l.events/2), l.table(i%l.tables), "c"
		if i >= l.events/2 {
			op = "u"
		}
		row := fmt.Sprintf(`{"id":%d`, id)
		for c := 1; c < l.columns; c++ {
			row += fmt.Sprintf(`,"c%d":"value %d of %d"`, c, c, i)
		}
		row += "}"
		before := ""
		if op == "u" {
			before = strings.ReplaceAll(row, fmt.Sprintf(" of %d", i), fmt.Sprintf(" of %d", id))
		}
		p := debezium.Partition{Topic: "s.d." + table, ID: int32(id % l.partitions)}
		value := rowAt(i+1, table, op, before, row)
		if l.transaction > 0 {
			n, order := i/l.transaction, i%l.transaction+1
			value = fmt.Sprintf(`%s,"transaction":{"id":"u:%d","total_order":%d,"data_collection_order":%d}}`, strings.TrimSuffix(value, "}"), n, order, order)
			if order == l.transaction || i == l.events-1 {
				markers = append(markers, began(n), ended(n, counted(table, order)))
			}
		}
		values[p] = append(values[p], value)
		if len(values[p]) == 200 {
			log.add(p, 0, values[p]...)
			values[p] = nil
		}
	}
	if len(markers) > 0 {
		log.add(transactionTopic, 0, markers...)
	}
	for p, rest := range values {
		if len(rest) > 0 {
			log.add(p, 0, rest...)
		}
	}
	return log
}

// sink has PostgreSQL's tables and dialect, and forgets what it is told.
func (l load) sink() txnsink.Sink {
	s := forgetful{Sink: sinktest.NewMemory().Sink(), tables: map[string]*schema.Table{}}
	for i := range l.tables {
		t := &schema.Table{Name: schema.Name{Schema: "public", Table: l.table(i)}, PrimaryKey: []string{"id"}}
		t.Columns = append(t.Columns, schema.Column{Name: "id", Type: sqlgen.PostgresType("bigint"), NotNull: true})
		for c := 1; c < l.columns; c++ {
			t.Columns = append(t.Columns, schema.Column{Name: fmt.Sprintf("c%d", c), Type: sqlgen.PostgresType("text")})
		}
		s.tables[t.Name.Table] = t
	}
	return s
}

type forgetful struct {
	txnsink.Sink
	tables map[string]*schema.Table
}

func (f forgetful) Dialect() sqlgen.Dialect { return sqlgen.Postgres{} }

func (f forgetful) Table(_ context.Context, name schema.Name) (*schema.Table, error) {
	return f.tables[name.Table], nil
}

func (f forgetful) Begin(ctx context.Context, id txnsink.ID) (txnsink.Txn, error) {
	txn, err := f.Sink.Begin(ctx, id)
	return forgetfulTxn{txn}, err
}

type forgetfulTxn struct{ txnsink.Txn }

func (forgetfulTxn) Apply(context.Context, []sqlgen.Statement) error { return nil }

// processorTime is what this process has used of all cores.
func processorTime(tb testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
