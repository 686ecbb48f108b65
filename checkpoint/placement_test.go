package checkpoint

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink/sinktest"
)

var (
	placedKey   = &debezium.Shape{Fields: []debezium.Field{{Name: "id", Type: debezium.Int64}}}
	placedShape = &debezium.Shape{Fields: []debezium.Field{{Name: "id", Type: debezium.Int64}, {Name: "v", Type: debezium.String}}}
)

func placedID(id int) debezium.Row {
	return debezium.Row{Shape: placedKey, Values: []debezium.Value{{Kind: debezium.IntValue, Num: int64(id)}}}
}

func placedRow(id int) debezium.Row {
	return debezium.Row{Shape: placedShape, Values: []debezium.Value{{Kind: debezium.IntValue, Num: int64(id)}, {Kind: debezium.StringValue, Text: "x"}}}
}

func placedTable(change func(*schema.Table)) *sqlgen.Target {
	table := schema.Table{
		Name: schema.Name{Table: "t"}, PrimaryKey: []string{"id"},
		Columns: []schema.Column{{Name: "id", Type: schema.Type{Kind: schema.Int64}}, {Name: "v", Type: schema.Type{Kind: schema.Text}}},
	}
	if change != nil {
		change(&table)
	}
	t, err := sqlgen.NewTarget(sinktest.Dialect{}, table, sqlgen.TargetConfig{})
	if err != nil {
		panic(err)
	}
	return t
}

// randomEvent is a change of few keys, and the keys that it touches; none means all.
func randomEvent(r *rand.Rand) (events []debezium.Event, keys []int) {
	a, b := r.IntN(30), r.IntN(30)
	switch n := r.IntN(40); {
	case n == 0:
		return []debezium.Event{{Op: debezium.Truncate}}, nil
	case n < 6 && a != b:
		halves := []debezium.Event{
			{Op: debezium.Delete, Before: placedRow(a), Key: placedID(a), NewKey: placedID(b)},
			{Op: debezium.Create, After: placedRow(b), Key: placedID(b), OldKey: placedID(a)},
		}
		if n < 3 {
			halves[0], halves[1] = halves[1], halves[0] // of two partitions
		}
		return halves, []int{a, b}
	case n < 10:
		return []debezium.Event{{Op: debezium.Delete, Key: placedID(a)}}, []int{a}
	case n < 25:
		return []debezium.Event{{Op: debezium.Create, Key: placedID(a), After: placedRow(a)}}, []int{a}
	}
	return []debezium.Event{{Op: debezium.Update, Key: placedID(a), Before: placedRow(a), After: placedRow(a)}}, []int{a}
}

func TestNoTwoLanesTouchTheSameRowBetweenBarriers(t *testing.T) {
	t.Parallel()
	lanes := map[int]bool{}
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		p, target := newPlacement(4, false), placedTable(nil)
		touched, emptied, barriers := map[int]int{}, -1, 0
		barrier := func() {
			p.passed()
			touched, emptied = map[int]int{}, -1
			barriers++
		}
		for range 500 {
			if r.IntN(50) == 0 {
				barrier()
			}
			if r.IntN(100) == 0 {
				target = placedTable(nil) // looked up anew
			}
			events, keys := randomEvent(r)
			for i := range events {
				lane, _, ok := p.of(target, &events[i])
				if !ok {
					if i > 0 {
						t.Fatalf("seed %d: a barrier between the halves of a move", seed)
					}
					barrier()
					if lane, _, ok = p.of(target, &events[i]); !ok {
						t.Fatalf("seed %d: a barrier after a barrier", seed)
					}
				}
				lanes[lane] = true
				if keys == nil {
					for _, l := range touched {
						if l != lane {
							t.Fatalf("seed %d: truncated on lane %d while rows are on lane %d", seed, lane, l)
						}
					}
					emptied = lane
				}
				for _, k := range keys {
					if l, ok := touched[k]; ok && l != lane || emptied >= 0 && emptied != lane {
						t.Fatalf("seed %d: key %d on lanes %d and %d", seed, k, l, lane)
					}
					touched[k] = lane
				}
			}
		}
	}
	if len(lanes) != 4 {
		t.Errorf("rows went to lanes %v", lanes)
	}
}

func TestRowsThatDependOnMoreThanTheirKeyShareALane(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*schema.Table)
		whole  bool
		want   bool
	}{
		"key alone":               {nil, false, false},
		"one lane a table":        {nil, true, true},
		"unique columns":          {func(t *schema.Table) { t.Unique = [][]string{{"v"}} }, false, true},
		"unique index on the key": {func(t *schema.Table) { t.Unique = [][]string{{"id"}} }, false, false},
		"unique by an expression": {func(t *schema.Table) { t.Indexes = []schema.Index{{Name: "x", Unique: true, Special: "expression"}} }, false, true},
		"plain index":             {func(t *schema.Table) { t.Indexes = []schema.Index{{Name: "x", Columns: []string{"v"}}} }, false, false},
		"foreign key":             {func(t *schema.Table) { t.Tied = true }, false, true},
		"no key":                  {func(t *schema.Table) { t.PrimaryKey = nil }, false, true},
	} {
		p, target := newPlacement(8, c.whole), placedTable(c.change)
		lanes := map[int]bool{}
		for i := range 100 {
			lane, _, ok := p.of(target, &debezium.Event{Op: debezium.Create, Key: placedID(i), After: placedRow(i)})
			if !ok {
				t.Fatalf("%s: a barrier for a row of its own", name)
			}
			lanes[lane] = true
		}
		if got := len(lanes) == 1; got != c.want {
			t.Errorf("%s: on lanes %s", name, fmt.Sprint(lanes))
		}
	}
}
