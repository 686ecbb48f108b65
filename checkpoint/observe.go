package checkpoint

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// Observation is what a pipeline tells those who watch it: a [Recovered], [Completed], [InDoubt] or [Ends], and in a
// [Cluster] a [Joined] or [Released]. None is made per
// event: what an event changes is counted by the goroutine that has it anyway, and told with the checkpoint.
type Observation interface{ observation() }

// Recovered says that a run begins: what was in doubt is decided, and the positions are known.
type Recovered struct {
	Epoch      int64
	Checkpoint int64 // the last one saved
	Positions  debezium.Positions
	Committed  int // transactions that were in doubt
	RolledBack int // likewise
	Took       time.Duration
}

// Completed says that a checkpoint is complete: saved, and committed as far as its delivery commits after that.
type Completed struct {
	Checkpoint Checkpoint
	Cut        time.Time
	Bytes      int64 // as they were in Kafka
	Phases     Phases
	Tables     []TableCount                 // tables with events in this checkpoint
	Aside      []AsideCount                 // records that were set aside in this checkpoint
	Ends       map[debezium.Partition]int64 // last stable offsets as they were seen with the events
}

// Phases is how long each phase of a checkpoint took; zero for one that its delivery does not have. All but Apply follow one another
// from the cut on.
type Phases struct {
	Apply   time.Duration // statements on the target, of the slowest lane; most of it is before the cut
	Align   time.Duration // until the barrier has passed every lane
	Prepare time.Duration
	Save    time.Duration
	Commit  time.Duration
}

// TableCount is what a checkpoint changed in one table.
type TableCount struct {
	Source, Target string
	Ops            map[debezium.Op]int64
	Last           time.Time // when the source committed the newest of them; zero: it does not say
	Version        int64     // offset in the schema-change topic of the statement that made the table what it is; -1: none is known
}

// AsideCount is how many records of one table a checkpoint set aside for one class of reasons.
type AsideCount struct {
	Source  string // the source's table, or the topic of a record that does not tell
	Class   sqlgen.Class
	Records int64
}

// InDoubt lists the transactions that are prepared and not decided yet. An empty one says that there are none.
type InDoubt struct{ Txns []Doubt }

// Doubt is one transaction in doubt.
type Doubt struct {
	ID    txnsink.ID
	Since time.Time
}

// Ends is the partitions' last stable offsets as the brokers tell them, also while nothing is read.
type Ends struct{ Ends map[debezium.Partition]int64 }

func (Recovered) observation() {}
func (Completed) observation() {}
func (InDoubt) observation()   {}
func (Ends) observation()      {}
func (Joined) observation()    {}
func (Released) observation()  {}

// Joined says which slots the group has given to this process. None: it stands by.
type Joined struct{ Slots []int }

// Released lists partitions that this process reads no more.
type Released struct{ Partitions []debezium.Partition }

// endsEvery is how often the ends are asked for, and endsWithin how long that may take.
const (
	endsEvery  = 2 * time.Second
	endsWithin = 10 * time.Second
)

// watchEnds tells the ends until ctx is done. Where they cannot be had the reader will say so.
func (r *run) watchEnds(ctx context.Context, reader Reader) error {
	tick := time.NewTicker(endsEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		asking, cancel := context.WithTimeout(ctx, endsWithin)
		ends, err := reader.Ends(asking)
		cancel()
		if err != nil {
			r.Log.Debug("asking for the partitions' ends", "pipeline", r.Pipeline, "error", err)
			continue
		}
		r.Observe(Ends{ends})
	}
}

// doubts lists what the sink told.
func doubts(pending []txnsink.Prepared) []Doubt {
	var out []Doubt
	for _, p := range pending {
		out = append(out, Doubt{p.ID, time.Now().Add(-time.Duration(p.AgeSeconds * float64(time.Second)))})
	}
	return out
}

// Part is where a run failed.
type Part string

// The parts of a run.
const (
	PartRecovery   Part = "recovery"
	PartSource     Part = "source"
	PartDecode     Part = "decode"
	PartRoute      Part = "route" // and schema changes
	PartFold       Part = "fold"
	PartTarget     Part = "target"
	PartCheckpoint Part = "checkpoint"
	PartUnknown    Part = "unknown"
)

// partError is an error and where it came from, which its text says well enough.
type partError struct {
	error
	part Part
}

func (e *partError) Unwrap() error { return e.error }

func in(part Part, err error) error {
	if err == nil {
		return nil
	}
	return &partError{err, part}
}

// FailedIn returns the part of a run that err, as Config.Failed is given it, came from.
func FailedIn(err error) Part {
	var p *partError
	if errors.As(err, &p) {
		return p.part
	}
	return PartUnknown
}

// count is a table's events since the last cut. It belongs to the router.
type count struct {
	target schema.Name
	ops    map[debezium.Op]int64
	lastMs int64
	offset int64
}

func (c *count) add(e *debezium.Event) {
	c.ops[e.Op]++
	c.lastMs = max(c.lastMs, e.Source.TsMs)
}

// count returns the counter of a table, for as long as no checkpoint is cut.
func (r *router) count(name sourceTable, en *entry) *count {
	c := en.count
	if c == nil {
		if c = r.counts[name]; c == nil {
			c = &count{ops: map[debezium.Op]int64{}}
			r.counts[name] = c
		}
		en.count = c
	}
	c.target, c.offset = en.target.Table.Name, -1
	if en.at != nil {
		c.offset = en.at.offset
	}
	return c
}

// counted returns what was counted since the last cut, by name, and begins anew.
func (r *router) counted() []TableCount {
	out := make([]TableCount, 0, len(r.counts))
	for name, c := range r.counts {
		t := TableCount{Source: name.String(), Target: c.target.String(), Ops: c.ops, Version: c.offset}
		if c.lastMs > 0 {
			t.Last = time.UnixMilli(c.lastMs).UTC()
		}
		out = append(out, t)
		r.tables.entry(name).count = nil
	}
	slices.SortFunc(out, func(a, b TableCount) int { return cmp.Compare(a.Source, b.Source) })
	clear(r.counts)
	return out
}

// refusedCount names what AsideCount counts.
type refusedCount struct {
	source string
	class  sqlgen.Class
}

// countedAside returns what was set aside since the last cut, in order, and begins anew.
func (r *router) countedAside() []AsideCount {
	if len(r.asides) == 0 {
		return nil
	}
	out := make([]AsideCount, 0, len(r.asides))
	for k, n := range r.asides {
		out = append(out, AsideCount{k.source, k.class, n})
	}
	slices.SortFunc(out, func(a, b AsideCount) int {
		return cmp.Or(cmp.Compare(a.Source, b.Source), cmp.Compare(a.Class, b.Class))
	})
	clear(r.asides)
	return out
}

// noteAge remembers the age of a batch's first event: until the next checkpoint is complete it may be the oldest that the target lacks.
func (r *router) noteAge(events []debezium.Event) {
	if len(events) == 0 {
		return
	}
	e := &events[0]
	at := time.UnixMilli(e.Source.TsMs)
	switch {
	case e.Source.TsMs > 0:
	case e.SentNs > 0:
		at = time.Unix(0, e.SentNs)
	default:
		return
	}
	if r.oldest.IsZero() || at.Before(r.oldest) {
		r.oldest = at
	}
}

// endsSeen returns the partitions' ends as the router knows them.
func (r *router) endsSeen() map[debezium.Partition]int64 {
	out := make(map[debezium.Partition]int64, len(r.lags))
	for p, lag := range r.lags {
		out[p] = r.positions[p].Offset + lag
	}
	return out
}
