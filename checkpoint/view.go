package checkpoint

import (
	"maps"
	"slices"
	"sync"

	"replicator/debezium"
	"replicator/sqlgen"
)

// view tells those who watch a process of a cluster of all its slots as if they were one pipeline. It is safe for concurrent use.
type view struct {
	gate     *Gate
	observe  func(Observation)
	progress func(Progress)
	failed   func(error)

	mu    sync.Mutex
	slots map[int]*slotView
	past  Progress                 // what runs that are over have counted
	told  map[sqlgen.DDLKind]int64 // of the DDL, until the last Recovered: whoever is told of one counts from zero
}

// slotView is what is known of a slot's present run.
type slotView struct {
	progress  Progress
	positions debezium.Positions
	doubts    []Doubt
}

func newView(c *Cluster) *view {
	return &view{gate: c.Gate, observe: c.Observe, progress: c.Progress, failed: c.Failed, slots: map[int]*slotView{}}
}

// watch makes the run that c configures tell of itself here.
func (v *view) watch(slot int, c *Config) {
	c.Gate, c.Failed = v.gate, v.failed
	c.Observe = func(o Observation) { v.observed(slot, o) }
	c.Progress = func(p Progress) { v.progressed(slot, p) }
}

// slot returns what is known of one. v.mu is held.
func (v *view) slot(n int) *slotView {
	s := v.slots[n]
	if s == nil {
		s = &slotView{}
		v.slots[n] = s
	}
	return s
}

func (v *view) observed(slot int, o Observation) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.slot(slot)
	switch is := o.(type) {
	case Recovered:
		v.past = added(v.past, s.progress)
		s.progress, s.positions, s.doubts = Progress{}, is.Positions, nil
		v.told = v.sum().DDL
		is.Positions = v.positions()
		o = is
	case Completed:
		s.positions = is.Checkpoint.Positions
		is.Checkpoint.Positions = v.positions()
		o = is
	case InDoubt:
		s.doubts = is.Txns
		var all []Doubt
		for _, n := range slices.Sorted(maps.Keys(v.slots)) {
			all = append(all, v.slots[n].doubts...)
		}
		o = InDoubt{all}
	}
	v.observe(o)
}

func (v *view) progressed(slot int, p Progress) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.slot(slot).progress = p
	all := v.sum()
	for kind, n := range v.told {
		all.DDL[kind] -= n
	}
	v.progress(all)
}

// forget is told that a slot runs no more, and returns when nobody is told of it any more.
func (v *view) forget(slot int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.slots[slot]
	if s == nil {
		return
	}
	delete(v.slots, slot)
	v.past = added(v.past, s.progress)
	v.observe(Released{slices.Collect(maps.Keys(s.positions))})
}

// positions are those of all slots. v.mu is held.
func (v *view) positions() debezium.Positions {
	out := debezium.Positions{}
	for _, s := range v.slots {
		maps.Copy(out, s.positions)
	}
	return out
}

// sum is the progress of all slots. v.mu is held.
func (v *view) sum() Progress {
	out := added(v.past, Progress{})
	for _, s := range v.slots {
		p := s.progress
		out = added(out, p)
		out.Checkpoint = max(out.Checkpoint, p.Checkpoint)
		out.Lag, out.ToGo, out.Total = out.Lag+p.Lag, out.ToGo+p.ToGo, out.Total+p.Total
		out.AsideRows += p.AsideRows
		if !p.Oldest.IsZero() && (out.Oldest.IsZero() || p.Oldest.Before(out.Oldest)) {
			out.Oldest = p.Oldest
		}
	}
	return out
}

// added returns a with what b counts since the start of its run.
func added(a, b Progress) Progress {
	a.Events, a.Rows, a.Repeated, a.Skipped, a.Aside = a.Events+b.Events, a.Rows+b.Rows, a.Repeated+b.Repeated, a.Skipped+b.Skipped, a.Aside+b.Aside
	ddl := make(map[sqlgen.DDLKind]int64, len(a.DDL)+len(b.DDL))
	maps.Copy(ddl, a.DDL)
	for kind, n := range b.DDL {
		ddl[kind] += n
	}
	a.DDL = ddl
	return a
}
