package ops

import (
	"cmp"
	"slices"
	"time"
)

// State is what a pipeline is doing.
type State string

// The states.
const (
	Starting State = "starting" // it recovers, or its target cannot be reached yet
	Running  State = "running"
	Standby  State = "standby" // other processes of the pipeline run it, and this one takes over when they are gone
	Paused   State = "paused"  // by request
	Stalled  State = "stalled" // it is behind, and no checkpoint has been complete for long
	Waiting  State = "waiting" // a run failed, and it will start again
	Fenced   State = "fenced"  // another process runs the pipeline
	Stopped  State = "stopped"
)

// Status is what /api/status returns. openapi.json describes each field.
type Status struct {
	Pipeline             string       `json:"pipeline"`
	Version              string       `json:"version"`
	Delivery             string       `json:"delivery"`
	Workers              int          `json:"workers"` // lanes
	Source               string       `json:"source"`
	Target               string       `json:"target"`
	State                State        `json:"state"`
	Running              bool         `json:"running"`
	Failure              string       `json:"failure,omitempty"` // the last one, until it runs again
	Started              time.Time    `json:"started"`           // the process
	Now                  time.Time    `json:"now"`
	Epoch                int64        `json:"epoch"`
	Restarts             int64        `json:"restarts"`
	Checkpoint           int64        `json:"checkpoint"`
	CheckpointAgeSeconds float64      `json:"checkpoint_age_seconds"` // since the last one was complete
	Events               int64        `json:"events"`                 // since the pipeline began to run, as are the next two
	Rows                 int64        `json:"rows"`
	Repeated             int64        `json:"repeated"`
	Rate                 float64      `json:"rate"` // rows a second, as in the last sample
	Lag                  int64        `json:"lag"`  // offsets
	LagSeconds           float64      `json:"lag_seconds"`
	DeadLetters          int64        `json:"dead_letters"` // set aside in complete checkpoints since the process began
	AsideRows            int64        `json:"aside_rows"`   // rows that wait for records that are set aside
	PartitionCount       int          `json:"partition_count"`
	TableCount           int          `json:"table_count"`
	Partitions           []Partition  `json:"partitions"`
	Tables               []Table      `json:"tables"`
	Checkpoints          []Checkpoint `json:"checkpoints"` // oldest first
	InDoubt              []Doubt      `json:"in_doubt"`
	Asides               []Aside      `json:"asides"` // what dead_letters is made of
	Runs                 []Run        `json:"runs"`   // oldest first

	SourceTransactions *SourceTransactions `json:"source_transactions,omitempty"` // with source_transactions: preserve
}

// Partition is one partition of the source.
type Partition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Position  int64  `json:"position"` // the next offset, of the last complete checkpoint
	End       int64  `json:"end"`
	Lag       int64  `json:"lag"`
}

// Table is what was committed to one table since the process began.
type Table struct {
	Source        string     `json:"source"`
	Target        string     `json:"target"`
	Rows          int64      `json:"rows"`
	Reads         int64      `json:"reads"`
	Creates       int64      `json:"creates"`
	Updates       int64      `json:"updates"`
	Deletes       int64      `json:"deletes"`
	LastChange    *time.Time `json:"last_change"`
	SchemaVersion *int64     `json:"schema_version"`
}

// Checkpoint is one complete checkpoint.
type Checkpoint struct {
	ID        int64     `json:"id"`
	Cut       time.Time `json:"cut"`
	Rows      int64     `json:"rows"`
	Bytes     int64     `json:"bytes"`
	Savepoint bool      `json:"savepoint"`
	Phases    Phases    `json:"phases"`
}

// Phases is how long each took, in seconds.
type Phases struct {
	Apply   float64 `json:"apply"`
	Align   float64 `json:"align"`
	Prepare float64 `json:"prepare"`
	Save    float64 `json:"save"`
	Commit  float64 `json:"commit"`
}

// Doubt is a transaction that is prepared and not decided yet.
type Doubt struct {
	Transaction string  `json:"transaction"`
	AgeSeconds  float64 `json:"age_seconds"`
}

// Aside is how many records of a table were set aside for a reason, since the process began.
type Aside struct {
	Table   string `json:"table"` // of the source
	Reason  string `json:"reason"`
	Records int64  `json:"records"`
}

// SourceTransactions is what became of the source's transactions since the pipeline began to run, and what waits.
type SourceTransactions struct {
	Whole         int64   `json:"whole"`
	Split         int64   `json:"split"`
	Unended       int64   `json:"unended"`
	Repeated      int64   `json:"repeated"`
	Without       int64   `json:"without"` // rows
	Waiting       int     `json:"waiting"`
	Oldest        string  `json:"oldest"` // of those that wait; empty: none does
	OldestSeconds float64 `json:"oldest_seconds"`
	SilentSeconds float64 `json:"silent_seconds"`
	MemoryBytes   int64   `json:"memory_bytes"`
	SpilledBytes  int64   `json:"spilled_bytes"`
}

// Run is one start of the pipeline, and why: "start", or where the run before it failed.
type Run struct {
	Began           time.Time `json:"began"`
	Reason          string    `json:"reason"`
	Error           string    `json:"error,omitempty"`
	Epoch           int64     `json:"epoch"` // 0: recovery is not done
	Checkpoint      int64     `json:"checkpoint"`
	Committed       int       `json:"committed"`
	RolledBack      int       `json:"rolled_back"`
	RecoverySeconds float64   `json:"recovery_seconds"`
}

// Status returns what the port shows.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UTC()
	p := s.progress
	state := s.present(now)
	out := Status{
		Pipeline: s.config.Pipeline, Version: s.config.Version, Delivery: s.config.Delivery, Workers: s.config.Workers, Source: s.config.Source, Target: s.config.Target,
		State: state, Running: state == Running || state == Paused || state == Stalled, Failure: s.failure,
		Started: s.started, Now: now, Epoch: s.epoch, Restarts: s.restarts,
		Checkpoint: p.Checkpoint, CheckpointAgeSeconds: s.checkpointAge(now), Events: p.Events, Rows: p.Rows, Repeated: p.Repeated,
		Rate: s.history.last().Rate, Lag: s.lagEvents(), LagSeconds: s.lagTime(now).Seconds(),
		AsideRows: p.AsideRows, PartitionCount: len(s.ends), TableCount: len(s.tables),
		Partitions: s.partitionsBehind(), Tables: s.tablesChanged(), InDoubt: []Doubt{},
		Asides: append([]Aside{}, s.asides...), Checkpoints: append([]Checkpoint{}, s.checkpoints...), Runs: append([]Run{}, s.runs...),
	}
	slices.SortFunc(out.Tables, func(a, b Table) int {
		return cmp.Or(lastChange(b).Compare(lastChange(a)), cmp.Compare(a.Source, b.Source))
	})
	out.Tables = out.Tables[:min(len(out.Tables), shownTables)]
	for _, a := range s.asides {
		out.DeadLetters += a.Records
	}
	if s.config.Preserve {
		out.SourceTransactions = s.sourceTransactions(now)
	}
	for _, d := range s.doubts {
		out.InDoubt = append(out.InDoubt, Doubt{d.ID.String(), max(0, now.Sub(d.Since).Seconds())})
	}
	return out
}

func (s *Server) sourceTransactions(now time.Time) *SourceTransactions {
	w := &s.whole
	out := &SourceTransactions{
		Whole: w.Whole, Split: w.Split, Unended: w.Unended, Repeated: w.Repeated, Without: w.Without,
		Waiting: s.waiting(), Oldest: w.Waiting, MemoryBytes: w.Memory, SpilledBytes: w.Disk,
	}
	if out.Waiting > 0 {
		out.OldestSeconds, out.SilentSeconds = max(0, now.Sub(w.Began).Seconds()), max(0, now.Sub(w.Since).Seconds())
	}
	return out
}

// waiting is how many of the source's transactions wait to be whole, or for those before them. s.mu is held.
func (s *Server) waiting() int {
	if s.whole.Waiting == "" {
		return 0
	}
	return 1 + s.whole.Behind
}

func lastChange(t Table) time.Time {
	if t.LastChange == nil {
		return time.Time{}
	}
	return *t.LastChange
}

func (s *Server) partitionsBehind() []Partition {
	out := make([]Partition, 0, len(s.ends))
	for p, end := range s.ends {
		at := s.positions[p].Offset
		out = append(out, Partition{p.Topic, p.ID, at, end, max(0, end-at)})
	}
	slices.SortFunc(out, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(b.Lag, a.Lag), cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return out[:min(len(out), shownPartitions)]
}

// checkpointAge is how long ago a checkpoint was complete, or the run began if none was yet.
func (s *Server) checkpointAge(now time.Time) float64 {
	if s.completed.IsZero() {
		return 0
	}
	return now.Sub(s.completed).Seconds()
}
