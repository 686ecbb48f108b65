package ops

import (
	"errors"
	"maps"
	"slices"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/txnsink"
)

// progressed is told how far a run is, after each batch.
func (s *Server) progressed(p checkpoint.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.failure, s.progress = Running, "", p
	for kind, n := range p.DDL {
		if more := n - s.ddl[kind]; more > 0 {
			s.metrics.ddl.WithLabelValues(string(kind)).Add(float64(more))
			s.ddl[kind] = n
		}
	}
}

// failed is told that a run ended and will start again.
func (s *Server) failed(err error, text string) {
	part := checkpoint.FailedIn(err)
	s.metrics.restarts.WithLabelValues(string(part)).Inc()
	if part == checkpoint.PartCheckpoint {
		s.metrics.checkpoints.WithLabelValues("failed").Inc()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.failure = Waiting, text[:min(len(text), maxFailureText)]
	s.restarts++
	s.keepRun(Run{Began: time.Now().UTC(), Reason: string(part), Error: s.failure})
}

// Ended tells the port that the pipeline will not run again in this process; err is why, nil after a last checkpoint.
func (s *Server) Ended(err error, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state, s.failure = Stopped, text[:min(len(text), maxFailureText)]
	if errors.Is(err, txnsink.ErrFenced) {
		s.state = Fenced
	}
}

func (s *Server) keepRun(r Run) {
	s.runs = append(s.runs, r)
	if len(s.runs) > keptRuns {
		s.runs = s.runs[1:]
	}
}

func (s *Server) observe(o checkpoint.Observation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch o := o.(type) {
	case checkpoint.Recovered:
		s.recovered(o)
	case checkpoint.Completed:
		s.complete(o)
	case checkpoint.InDoubt:
		s.doubts = o.Txns
	case checkpoint.Ends:
		s.atEnds(o.Ends)
	case checkpoint.SourceTransactions:
		s.metrics.kept(&o, &s.whole)
		s.whole = o
	case checkpoint.Joined:
		s.member, s.slots = true, len(o.Slots)
	case checkpoint.Released:
		s.released(o.Partitions)
	}
}

func (s *Server) recovered(r checkpoint.Recovered) {
	s.state, s.failure, s.epoch = Running, "", r.Epoch
	s.completed = time.Now()
	s.positions, s.ends = r.Positions, map[debezium.Partition]int64{}
	clear(s.ddl) // a run counts from zero
	s.whole = checkpoint.SourceTransactions{}
	// A run that failed stands with its reason already; the next start completes it.
	if n := len(s.runs); n == 0 || s.runs[n-1].Epoch != 0 {
		s.keepRun(Run{Began: time.Now().UTC(), Reason: "start"})
	}
	run := &s.runs[len(s.runs)-1]
	run.Epoch, run.Checkpoint, run.Committed, run.RolledBack, run.RecoverySeconds = r.Epoch, r.Checkpoint, r.Committed, r.RolledBack, r.Took.Seconds()
}

func (s *Server) complete(c checkpoint.Completed) {
	s.metrics.complete(&c)
	s.completed = time.Now()
	s.positions = c.Checkpoint.Positions
	s.rows += c.Checkpoint.Rows
	p := c.Phases
	s.checkpoints = append(s.checkpoints, Checkpoint{
		ID: c.Checkpoint.ID, Cut: c.Cut.UTC(), Rows: c.Checkpoint.Rows, Bytes: c.Bytes, Savepoint: c.Checkpoint.Savepoint,
		Phases: Phases{
			Apply: p.Apply.Seconds(), Align: p.Align.Seconds(), Prepare: p.Prepare.Seconds(), Save: p.Save.Seconds(), Commit: p.Commit.Seconds(),
		},
	})
	if len(s.checkpoints) > keptCheckpoints {
		s.checkpoints = s.checkpoints[1:]
	}
	for _, t := range c.Tables {
		s.count(t)
	}
	for _, a := range c.Aside {
		s.setAside(a)
	}
	s.atEnds(c.Ends)
}

// setAside adds what a checkpoint set aside.
func (s *Server) setAside(a checkpoint.AsideCount) {
	i := slices.IndexFunc(s.asides, func(have Aside) bool { return have.Table == a.Source && have.Reason == string(a.Class) })
	if i < 0 {
		i = len(s.asides)
		s.asides = append(s.asides, Aside{Table: a.Source, Reason: string(a.Class)})
	}
	s.asides[i].Records += a.Records
}

// released forgets partitions that another process reads now.
func (s *Server) released(partitions []debezium.Partition) {
	kept := s.positions.Clone()
	for _, p := range partitions {
		delete(s.ends, p)
		delete(kept, p)
	}
	s.positions = kept
	s.atEnds(nil)
}

func (s *Server) count(c checkpoint.TableCount) {
	t := s.tables[c.Source]
	if t == nil {
		t = &Table{Source: c.Source}
		s.tables[c.Source] = t
	}
	t.Target = c.Target
	for op, n := range c.Ops {
		t.Rows += n
		switch op {
		case debezium.Read:
			t.Reads += n
		case debezium.Create:
			t.Creates += n
		case debezium.Update:
			t.Updates += n
		case debezium.Delete:
			t.Deletes += n
		}
	}
	if !c.Last.IsZero() {
		t.LastChange = &c.Last
	}
	t.SchemaVersion = nil
	if c.Version >= 0 {
		t.SchemaVersion = &c.Version
	}
}

// atEnds notes where the partitions end now, and since when the target has been behind.
func (s *Server) atEnds(ends map[debezium.Partition]int64) {
	for p, end := range ends {
		s.ends[p] = max(s.ends[p], end)
	}
	switch lag := s.lagEvents(); {
	case lag == 0:
		s.behindSince = time.Time{}
	case s.behindSince.IsZero():
		s.behindSince = time.Now()
	}
}

// lagEvents is how many offsets the target is behind the source, as far as it is known.
func (s *Server) lagEvents() int64 {
	var lag int64
	for p, end := range s.ends {
		lag += max(0, end-s.positions[p].Offset)
	}
	return lag
}

// lagTime is how long ago the source committed the oldest event that the target lacks. Where that is not read yet it is how long it is
// known to be there. Every record counts, a heartbeat too: a source that is idle is not behind.
func (s *Server) lagTime(now time.Time) time.Duration {
	if s.lagEvents() == 0 || s.behindSince.IsZero() {
		return 0
	}
	since := s.behindSince
	if at := s.progress.Oldest; !at.IsZero() && at.Before(since) {
		since = at
	}
	return max(0, now.Sub(since))
}

// lags returns the lag of every partition that is known.
func (s *Server) lags() map[debezium.Partition]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[debezium.Partition]int64, len(s.ends))
	for p, end := range s.ends {
		out[p] = max(0, end-s.positions[p].Offset)
	}
	return out
}

// present is what the state is now, with what only the clock and the gate tell.
func (s *Server) present(now time.Time) State {
	switch {
	case s.member && s.slots == 0 && (s.state == Running || s.state == Starting):
		return Standby
	case s.state != Running:
		return s.state
	case s.gate.Paused():
		return Paused
	case s.lagEvents() > 0 && now.Sub(s.completed) > max(leastStall, 10*s.config.Interval):
		return Stalled
	}
	return Running
}

// tablesChanged returns copies of the tables.
func (s *Server) tablesChanged() []Table {
	out := make([]Table, 0, len(s.tables))
	for t := range maps.Values(s.tables) {
		out = append(out, *t)
	}
	return out
}
