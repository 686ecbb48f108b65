package sqlgen

import (
	"strconv"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

// orderShape is a row of an ordinary table.
var orderShape = &debezium.Shape{Fields: []debezium.Field{
	{Name: "id", Type: debezium.Int64},
	{Name: "customer", Type: debezium.Int32},
	{Name: "state", Type: debezium.String},
	{Name: "total", Type: debezium.Bytes, Semantic: "org.apache.kafka.connect.data.Decimal", Params: map[string]string{"scale": "2"}},
	{Name: "placed", Type: debezium.Int64, Semantic: "io.debezium.time.MicroTimestamp"},
	{Name: "changed", Type: debezium.String, Semantic: "io.debezium.time.ZonedTimestamp"},
	{Name: "weight", Type: debezium.Float64},
	{Name: "note", Type: debezium.String},
}}

func orderTable() schema.Table {
	t := schema.Table{Name: schema.Name{Schema: "shop", Table: "orders"}, PrimaryKey: []string{"id"}}
	for i, native := range []string{
		"bigint", "integer", "character varying(20)", "numeric(12,2)", "timestamp without time zone", "timestamp with time zone", "double precision", "text",
	} {
		t.Columns = append(t.Columns, schema.Column{Name: orderShape.Fields[i].Name, Type: PostgresType(native)})
	}
	return t
}

func orderEvents(n int) []debezium.Event {
	key := &debezium.Shape{Fields: orderShape.Fields[:1]}
	out := make([]debezium.Event, n)
	for i := range out {
		id := debezium.Value{Kind: debezium.IntValue, Num: int64(i)}
		out[i] = debezium.Event{
			Op: debezium.Create, Offset: int64(i), Key: debezium.Row{Shape: key, Values: []debezium.Value{id}},
			After: debezium.Row{Shape: orderShape, Values: []debezium.Value{
				id, number32(i % 1000), textValue("paid"), textValue("AeJA"),
				{Kind: debezium.IntValue, Num: 1_709_210_096_789_012},
				textValue("2024-02-29T12:34:56.789012Z"),
				{Kind: debezium.NumberValue, Text: "12.75"},
				textValue("a note of order " + strconv.Itoa(i)),
			}},
		}
	}
	return out
}

// BenchmarkFold folds the events of new rows into statements.
func BenchmarkFold(b *testing.B) {
	mysql := orderTable()
	for i, native := range []string{"bigint", "int", "varchar(20)", "decimal(12,2)", "datetime(6)", "timestamp(6)", "double", "text"} {
		mysql.Columns[i].Type = MySQLType(native)
	}
	for _, c := range []struct {
		name    string
		dialect Dialect
		table   schema.Table
	}{{"postgres", Postgres{}, orderTable()}, {"mysql", MySQL{}, mysql}} {
		b.Run("dialect="+c.name, func(b *testing.B) { benchmarkFold(b, c.dialect, c.table) })
	}
}

func benchmarkFold(b *testing.B, d Dialect, table schema.Table) {
	target, err := NewTarget(d, table, TargetConfig{})
	if err != nil {
		b.Fatal(err)
	}
	events := orderEvents(10_000)
	batch := NewBatch(d)
	b.ReportAllocs()
	for b.Loop() {
		for i := range events {
			if err := batch.Add(target, &events[i]); err != nil {
				b.Fatal(err)
			}
		}
		if len(batch.Statements()) == 0 {
			b.Fatal("no statements")
		}
		batch.Reset()
	}
	b.ReportMetric(float64(len(events))*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
