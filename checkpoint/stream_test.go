package checkpoint

import (
	"reflect"
	"slices"
	"testing"

	"replicator/debezium"
)

// TestLabelsOnDiskArePackedAndComeBack: of one transaction and table they take a few bytes each, and others stay as they are.
func TestLabelsOnDiskArePackedAndComeBack(t *testing.T) {
	t.Parallel()
	a, b := new(txn), new(txn)
	alike := make([]label, 1000)
	for i := range alike {
		alike[i] = label{offset: int64(50 + i*i), order: int64(7 - 3*i), txn: a, table: 2, fresh: true}
	}
	with := func(change func(*label)) []label {
		l := slices.Clone(alike)
		change(&l[500])
		return l
	}
	for name, c := range map[string]struct {
		labels []label
		packed bool
	}{
		"of one":           {alike, true},
		"one":              {alike[:1], true},
		"none":             {nil, false},
		"two transactions": {with(func(m *label) { m.txn = b }), false},
		"two tables":       {with(func(m *label) { m.table = 3 }), false},
		"one sent again":   {with(func(m *label) { m.fresh = false }), false},
		"a place":          {with(func(m *label) { m.at = new(debezium.LogPosition) }), false},
	} {
		k := &chunk{labels: slices.Clone(c.labels)}
		k.pack()
		if (k.packed != nil) != c.packed || c.packed && (k.labels != nil || cap(k.packed.deltas) > 6*len(c.labels)) {
			t.Errorf("%s: packed as %+v, with %d labels", name, k.packed, len(k.labels))
		}
		k.unpack()
		k.unpack()
		if k.packed != nil || !reflect.DeepEqual(k.labels, c.labels) {
			t.Errorf("%s: the labels are %v, want %v", name, k.labels, c.labels)
		}
	}
}
