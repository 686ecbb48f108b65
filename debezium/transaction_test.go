package debezium_test

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
)

// TestMarkersCountTheEventsOfTheirTransactions: what the transaction topic says of each transaction is what the topics of rows
// hold of it, by transaction and by table.
func TestMarkersCountTheEventsOfTheirTransactions(t *testing.T) {
	t.Parallel()
	for _, connector := range []string{"plain", "pg", "avro", "avroh"} {
		t.Run(connector, func(t *testing.T) {
			t.Parallel()
			topics, err := debeziumtest.Load(filepath.Join(captures, connector))
			if err != nil {
				t.Fatal(err)
			}
			d := debezium.NewDecoder(debezium.DecoderConfig{Schemas: schemas(t)})
			var ends []debezium.Event
			orders := map[string][]int64{}   // by transaction
			sources := map[string][]string{} // by transaction, the collection that each event is counted for
			var events []debezium.Event
			for _, records := range topics {
				list, err := d.DecodeBatch(&debezium.Batch{Partition: records[0].Partition, Records: records})
				if err != nil {
					t.Fatal(err)
				}
				for i := range list {
					switch e := &list[i]; {
					case e.Op == debezium.Transaction && e.Marker.End:
						ends = append(ends, *e)
					case e.Op.Row() && e.Txn != "":
						events = append(events, *e)
					}
				}
			}
			named := map[string]bool{}
			for _, end := range ends {
				for _, c := range end.Marker.Collections {
					named[c.Collection] = true
				}
			}
			for i := range events {
				e := &events[i]
				orders[e.Txn] = append(orders[e.Txn], e.Order)
				for name := range named {
					if e.Source.Names(name) {
						sources[e.Txn] = append(sources[e.Txn], name)
					}
				}
			}
			counted := 0
			for _, end := range ends {
				want := map[string]int64{}
				for _, c := range end.Marker.Collections {
					// The captures lack a table with a large row, and PostgreSQL's messages are no rows.
					if !strings.HasSuffix(c.Collection, ".big") && !strings.Contains(c.Collection, "LogicalDecodingMessage") {
						want[c.Collection] += c.Events
					}
				}
				got := map[string]int64{}
				for _, name := range sources[end.Txn] {
					got[name]++
				}
				if !maps.Equal(got, want) {
					t.Errorf("transaction %q has events %v, and its END says %v", end.Txn, got, want)
				}
				slices.Sort(orders[end.Txn])
				for i, n := range orders[end.Txn] {
					if n != int64(i)+1 {
						t.Errorf("transaction %q has the events %v", end.Txn, orders[end.Txn])
						break
					}
				}
				counted += len(orders[end.Txn])
			}
			if counted == 0 || counted != len(events) {
				t.Errorf("%d events of transactions that ended, of %d", counted, len(events))
			}
		})
	}
}

func TestCollectionsNameTables(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		source     debezium.Source
		collection string
		want       bool
	}{
		{debezium.Source{Database: "shop", Table: "orders"}, "shop.orders", true},
		{debezium.Source{Database: "shop", Table: "orders"}, "orders", true},
		{debezium.Source{Database: "shop", Table: "orders"}, "hop.orders", false},
		{debezium.Source{Database: "shop", Table: "orders"}, "p.orders", false},
		{debezium.Source{Database: "shop", Table: "orders"}, "shop.order", false},
		{debezium.Source{Database: "shop", Table: "orders"}, "x.shop.orders", false},
		{debezium.Source{Database: "d", Schema: "public", Table: "wide"}, "public.wide", true},
		{debezium.Source{Database: "d", Schema: "dbo", Table: "wide"}, "d.dbo.wide", true},
		{debezium.Source{Database: "d", Schema: "dbo", Table: "wide"}, "d.wide", false},
		{debezium.Source{Database: "d", Schema: "dbo", Table: "a.b"}, "dbo.a.b", true},
	} {
		if got := tc.source.Names(tc.collection); got != tc.want {
			t.Errorf("%q.%q.%q is %q: %v, want %v", tc.source.Database, tc.source.Schema, tc.source.Table, tc.collection, got, tc.want)
		}
	}
}

func TestBadMarkersAreRefused(t *testing.T) {
	t.Parallel()
	for _, value := range []string{
		`{"status":"END","id":"","event_count":0,"data_collections":[],"ts_ms":1}`,
		`{"status":"END","id":"1","event_count":0,"data_collections":[{"data_collection":"a","event_count":-1}],"ts_ms":1}`,
		`{"status":"END","id":"1","event_count":0,"data_collections":7,"ts_ms":1}`,
	} {
		p := debezium.Partition{Topic: "s.transaction"}
		_, err := debezium.NewDecoder(debezium.DecoderConfig{}).DecodeBatch(&debezium.Batch{Partition: p, Records: []debezium.Record{{Partition: p, Value: []byte(value)}}})
		if err == nil {
			t.Errorf("%s was read", value)
		}
	}
}
