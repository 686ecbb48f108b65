package sqlgen

import (
	"bytes"
	"reflect"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

// sameStatements compares statements as a sink sees them, and every way of halving them.
func sameStatements(t *testing.T, got, want []Statement) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d statements, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		if (g.Origin == nil) != (w.Origin == nil) {
			t.Errorf("statement %d: origin %v, want %v", i, g.Origin != nil, w.Origin != nil)
		} else if g.Origin != nil {
			for row := range w.Rows {
				if g.Origin(row) != w.Origin(row) {
					t.Errorf("statement %d, row %d: origin %v, want %v", i, row, g.Origin(row), w.Origin(row))
				}
			}
		}
		if g.Slice != nil && w.Slice != nil {
			middle := w.Rows / 2
			sameStatements(t, []Statement{g.Slice(0, middle), g.Slice(middle, g.Rows)}, []Statement{w.Slice(0, middle), w.Slice(middle, w.Rows)})
		}
		if (g.Exchange == nil) != (w.Exchange == nil) {
			t.Errorf("statement %d: exchange %v, want %v", i, g.Exchange, w.Exchange)
		}
		if g.Exchange != nil && i == 0 {
			sameStatements(t, g.Exchange.Statements(), w.Exchange.Statements())
		}
		g.Exchange, w.Exchange = nil, nil
		g.Origin, w.Origin, g.Slice, w.Slice = nil, nil, nil, nil
		if !reflect.DeepEqual(g, w) {
			t.Errorf("statement %d: got %+v, want %+v", i, g, w)
		}
	}
}

func decoded(t *testing.T, list []Statement) []Statement {
	t.Helper()
	b, err := AppendStatements([]byte("before"), list)
	if err != nil {
		t.Fatal(err)
	}
	out, err := DecodeStatements(bytes.TrimPrefix(b, []byte("before")))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestStatementsSurviveALog writes what random histories become, and reads it back.
func TestStatementsSurviveALog(t *testing.T) {
	t.Parallel()
	sliced, whole := 0, 0
	for _, table := range []schema.Table{itemTable("id"), itemTable()} {
		target := mustTarget(t, table)
		for seed := range uint64(60) {
			for _, sc := range scenarios(seed) {
				sc.hide = sc.hide && len(table.PrimaryKey) > 0 // a row of a bag is found by all of its values
				sc.play(t, 6, target, func(_ Changes, list []Statement) error {
					list = Certain(list)
					got := decoded(t, list)
					sameStatements(t, got, list)
					for i := range got {
						if got[i].Slice != nil {
							sliced++
						} else if list[i].Slice != nil {
							whole++
						}
					}
					return nil
				})
			}
		}
	}
	if sliced == 0 {
		t.Error("no statement of several rows can be halved after it was read back")
	}
	t.Logf("%d statements can be halved, %d only before they were written", sliced, whole)
}

func TestArgumentsOfEveryKindSurviveALog(t *testing.T) {
	t.Parallel()
	p := debezium.Partition{Topic: "a topic", ID: 1<<31 - 1}
	want := []Statement{
		{
			Table: schema.Name{Schema: "s", Table: "t"}, Kind: UpsertRows, SQL: "INSERT ä", Rows: 3, Want: -1,
			Args:   []any{nil, []byte{0, 255}, "x\x00", int64(-1 << 63), uint64(1<<64 - 1), -0.5, true, false, Array{OID: 1, Elem: 2, Data: []byte("abc")}},
			Origin: func(i int) Origin { return Origin{Partition: p, Offset: int64(i), Key: "id=1"} },
		},
		{Table: schema.Name{Table: "t"}, Kind: TruncateTable, SQL: "TRUNCATE", Want: -1},
		{Table: schema.Name{Table: "t"}, Kind: DeleteRows, SQL: "DELETE", Rows: 1000, Want: 1000},
	}
	sameStatements(t, decoded(t, want), want)
	if _, err := AppendStatements(nil, []Statement{{Args: []any{struct{}{}}}}); err == nil {
		t.Error("an argument of a type of its own was written")
	}
}

// FuzzDecodeStatements: bytes that are no log are refused, and what is read can be used.
func FuzzDecodeStatements(f *testing.F) {
	target := mustTarget(f, itemTable("id"))
	b := NewBatch(Postgres{})
	for id := range 3 {
		e := debezium.Event{Op: debezium.Create, Key: idRow(id), After: itemRow(id, number32(1), textValue("x"))}
		if err := b.Add(target, &e); err != nil {
			f.Fatal(err)
		}
	}
	seed, err := AppendStatements(nil, b.Statements())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte{statementsVersion, 0})
	f.Fuzz(func(t *testing.T, in []byte) {
		list, err := DecodeStatements(in)
		if err != nil {
			return
		}
		for _, s := range list {
			for i := 0; s.Origin != nil && i < s.Rows; i++ {
				s.Origin(i)
			}
			for i := 0; s.Slice != nil && i < s.Rows; i++ {
				s.Slice(i, i+1)
			}
		}
		sameStatements(t, decoded(t, list), list)
	})
}
