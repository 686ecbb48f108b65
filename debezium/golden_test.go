package debezium_test

import (
	"flag"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
	"replicator/schema"
)

var update = flag.Bool("update", false, "write the golden files")

const captures = "../testdata/debezium"

// TestRecordedTopicsDecode decodes every record of connectors with schemas, without, in Avro, in Protobuf, and of PostgreSQL, and
// compares each event with testdata/<connector>/<topic>.txt.
func TestRecordedTopicsDecode(t *testing.T) {
	t.Parallel()
	for _, connector := range []string{"plain", "bare", "loose", "flat", "pg", "avro", "avroh", "proto", "proto2", "protow", "protoflat", "protopg"} {
		topics, err := debeziumtest.Load(filepath.Join(captures, connector))
		if err != nil {
			t.Fatal(err)
		}
		for topic, records := range topics {
			t.Run(topic, func(t *testing.T) {
				t.Parallel()
				events, err := debezium.NewDecoder(debezium.DecoderConfig{Schemas: schemasOf(t, connector)}).DecodeBatch(&debezium.Batch{Partition: records[0].Partition, Records: records})
				if err != nil {
					t.Fatal(err)
				}
				var b strings.Builder
				for i := range events {
					printEvent(&b, &events[i])
				}
				compareGolden(t, filepath.Join("testdata", connector, topic+".txt"), b.String())
			})
		}
	}
}

// schemasOf are those of a connector's recorded topics.
func schemasOf(tb testing.TB, connector string) debezium.Schemas {
	tb.Helper()
	if !strings.HasPrefix(connector, "proto") {
		return schemas(tb)
	}
	s, err := debeziumtest.LoadConfluent(filepath.Join(captures, "registry", "protobuf.jsonl"))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// schemas are those of the recorded Avro topics.
func schemas(tb testing.TB) debeziumtest.Schemas {
	tb.Helper()
	s, err := debeziumtest.LoadSchemas(filepath.Join(captures, "registry", "schemas.jsonl"))
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s is\n%s\nwant\n%s\n(go test -update writes it anew)", name, got, want)
	}
}

func printEvent(b *strings.Builder, e *debezium.Event) {
	s := &e.Source // what positions are made of has tests of its own
	fmt.Fprintf(b, "%d %v {Connector:%s Name:%s Database:%s Schema:%s Table:%s Snapshot:%v TsMs:%d File:%s Pos:%d RowNo:%d}\n",
		e.Offset, e.Op, s.Connector, s.Name, s.Database, s.Schema, s.Table, s.Snapshot, s.TsMs, s.File, s.Pos, s.RowNo)
	for _, r := range []struct {
		name string
		row  debezium.Row
	}{{"key", e.Key}, {"old key", e.OldKey}, {"new key", e.NewKey}, {"before", e.Before}, {"after", e.After}} {
		if r.row.Sent() {
			fmt.Fprintf(b, "  %s %s\n", r.name, printRow(r.row))
		}
	}
	if m := e.Marker; m != nil {
		fmt.Fprintf(b, "  of %q end=%v events=%d %+v\n", e.Txn, m.End, m.Events, m.Collections)
	} else if e.Txn != "" {
		fmt.Fprintf(b, "  event %d of transaction %q\n", e.Order, e.Txn)
	}
	if e.Change == nil {
		return
	}
	fmt.Fprintf(b, "  ddl %s\n", short(e.Change.DDL))
	for _, c := range e.Change.Tables {
		fmt.Fprintf(b, "  %s %q.%q.%q\n", c.Type, c.Database, c.Schema, c.Table)
		if c.Shape == nil {
			continue
		}
		fmt.Fprintf(b, "    key %q comment %q\n", c.Shape.PrimaryKey, c.Shape.Comment)
		for _, col := range c.Shape.Columns {
			fmt.Fprintf(b, "    %q %s notnull=%v auto=%v generated=%v", col.Name, printType(col.Type), col.NotNull, col.AutoIncrement, col.Generated)
			if col.Default != nil {
				fmt.Fprintf(b, " default=%q", *col.Default)
			}
			b.WriteByte('\n')
		}
	}
}

func printType(t schema.Type) string {
	text := fmt.Sprintf("{Kind:%d Length:%d Scale:%d Values:%v Native:%s}", t.Kind, t.Length, t.Scale, t.Values, t.Native)
	if t.Elem != nil {
		text += " of " + printType(*t.Elem)
	}
	return text
}

func printRow(r debezium.Row) string {
	var b strings.Builder
	for i := range r.Values {
		if i > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%s", r.Shape.Fields[i].Name, printValue(&r.Values[i]))
	}
	return b.String()
}

func printValue(v *debezium.Value) string {
	switch v.Kind {
	case debezium.Absent:
		return "absent"
	case debezium.Null:
		return "null"
	case debezium.Unavailable:
		return "unavailable"
	case debezium.Unset:
		return "null or " + printValue(&v.List.Values[0])
	case debezium.BoolValue:
		return fmt.Sprint(v.Num == 1)
	case debezium.IntValue:
		return fmt.Sprint(v.Num)
	case debezium.NumberValue:
		return "#" + v.Text
	case debezium.StringValue:
		return short(v.Text)
	case debezium.BytesValue:
		return "bytes" + short(v.Text)
	case debezium.ListValue:
		parts := make([]string, len(v.List.Values))
		for i := range parts {
			parts[i] = printValue(&v.List.Values[i])
			if v.List.Names != nil {
				parts[i] = v.List.Names[i] + ":" + parts[i]
			}
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprintf("?%d", v.Kind)
}

// short quotes a text; of a long one its beginning, length and hash.
func short(s string) string {
	if len(s) <= 200 {
		return fmt.Sprintf("%+q", s)
	}
	h := fnv.New64a()
	if _, err := h.Write([]byte(s)); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%+q... %d bytes %x", s[:40], len(s), h.Sum64())
}
