package checkpoint

import (
	"hash/maphash"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
)

// placement says which lane each row event goes to. Between two barriers no two lanes may touch the same row: one would
// wait for the other's transaction, which waits for the barrier. So a key that was touched stays on its lane until the
// next barrier, and a key that changes takes the lane of the row's other key. A table whose rows depend on more than their own
// keys is on one lane as a whole (see [sqlgen.Target.Spread]).
type placement struct {
	lanes  int
	whole  bool // every table is on one lane as a whole, which is a function of its name: one-phase delivery relies on it
	seed   maphash.Seed
	tables map[schema.Name]*placed
	keys   []uint64
	buf    []byte
}

// placed is one table's.
type placed struct {
	target  *sqlgen.Target
	lane    int              // of the table as a whole
	spread  bool             // its rows may be on different lanes
	targets []*sqlgen.Target // by lane: each lane folds with its own
	emptied bool             // truncated since the last barrier: every row goes where that went
	touched map[uint64]int   // since the last barrier: lanes by the hash of the key
}

func newPlacement(lanes int, whole bool) *placement {
	return &placement{lanes: lanes, whole: whole, seed: maphash.MakeSeed(), tables: map[schema.Name]*placed{}}
}

// of returns the lane of e, and the target to fold it with; t may be nil. ok is false if rows that e touches are on different lanes:
// a barrier must pass first.
func (p *placement) of(t *sqlgen.Target, e *debezium.Event) (lane int, _ *sqlgen.Target, ok bool) {
	if p.lanes == 1 || t == nil {
		return 0, t, true
	}
	pt := p.table(t)
	switch {
	case !pt.spread:
		return pt.lane, pt.targets[pt.lane], true
	case e.Op == debezium.Truncate:
		if len(pt.touched) > 0 && !pt.emptied {
			return 0, nil, false
		}
		pt.emptied = true
	}
	if pt.emptied {
		return pt.lane, pt.targets[pt.lane], true
	}
	lane, ok = p.ofKeys(pt, t, e)
	return lane, pt.targets[lane], ok
}

func (p *placement) ofKeys(pt *placed, t *sqlgen.Target, e *debezium.Event) (lane int, ok bool) {
	p.keys, p.buf = t.Keys(p.keys[:0], p.seed, p.buf, e)
	lane = -1
	for _, k := range p.keys {
		switch l, touched := pt.touched[k]; {
		case !touched || l == lane:
		case lane < 0:
			lane = l
		default:
			return 0, false
		}
	}
	switch {
	case len(p.keys) == 0:
		return pt.lane, true
	case lane < 0:
		lane = int(p.keys[0] % uint64(p.lanes))
	}
	for _, k := range p.keys {
		pt.touched[k] = lane
	}
	return lane, true
}

// table returns what is known of t's table. When the table is looked up anew, what was touched remains.
func (p *placement) table(t *sqlgen.Target) *placed {
	pt := p.tables[t.Table.Name]
	if pt == nil {
		pt = &placed{lane: laneOf(t, p.lanes), touched: map[uint64]int{}}
		p.tables[t.Table.Name] = pt
	}
	if pt.target != t {
		pt.target, pt.spread, pt.targets = t, !p.whole && t.Spread(), nil
		for range p.lanes {
			pt.targets = append(pt.targets, t.Clone())
		}
	}
	return pt
}

// passed notes that a barrier passed.
func (p *placement) passed() {
	for name, pt := range p.tables {
		if len(pt.touched) == 0 && !pt.emptied {
			delete(p.tables, name)
			continue
		}
		clear(pt.touched)
		pt.emptied = false
	}
}

// laneOf is the lane of a table as a whole.
func laneOf(t *sqlgen.Target, lanes int) int {
	h := uint32(2166136261) // FNV-1a
	for _, c := range []byte(t.Table.Name.String()) {
		h = (h ^ uint32(c)) * 16777619
	}
	return int(h % uint32(lanes))
}
