// Package ops is a running pipeline's HTTP port, for those who operate it.
//
//	GET  /                  the status page
//	GET  /healthz           200 while the process lives
//	GET  /readyz            200 while the pipeline runs; 503 before recovery is done, while it waits to start again, and when it is fenced or stalled
//	GET  /metrics           for Prometheus
//	GET  /api/status        how far it is, as JSON; /api/openapi.json describes it
//	GET  /api/history       rate and lag over the last hour
//	GET  /api/config        the settings of the configuration file, secrets masked
//	GET  /api/events        the status and the history as server-sent events
//	POST /api/savepoint     cuts a checkpoint that pruning keeps, and returns its number; needs the token
//	POST /api/pause         stops reading when what was read is committed; needs the token
//	POST /api/resume        reads on; needs the token
//	GET  /debug/pprof/      profiles, if the configuration asks for them
package ops

import (
	"log/slog"
	"sync"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/sqlgen"
)

// Bounds of what is kept and shown.
const (
	keptCheckpoints = 60
	keptRuns        = 20
	shownTables     = 500 // those that changed last
	shownPartitions = 500 // those that are furthest behind
	maxFailureText  = 2000
	leastStall      = time.Minute
)

// Config is what the port shows.
type Config struct {
	Pipeline string
	Version  string
	Commit   string
	Delivery string
	Workers  int           // lanes
	Source   string        // where it reads from, without secrets
	Target   string        // where it writes to, without secrets
	Settings []Setting     // of the configuration file, without secrets
	Token    string        // that actions need; empty: they are refused
	Pprof    bool          // serve profiles
	Preserve bool          // the source's transactions are kept whole
	Cluster  bool          // the process runs a part of the pipeline, of which there are no savepoints
	Interval time.Duration // between checkpoints; a pipeline that has not completed one for ten of them, and for a minute, is stalled
	Log      *slog.Logger  // nil: silent
}

// Setting is one key of the configuration.
type Setting struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Server is the state that the port shows, and its handler. It is safe for concurrent use.
type Server struct {
	config     Config
	savepoints chan chan<- checkpoint.Checkpoint
	gate       *checkpoint.Gate
	metrics    *metrics
	started    time.Time
	streams    chan struct{} // a place for each reader of /api/events

	mu          sync.Mutex
	member      bool  // of a group of processes
	slots       int   // that the group has given to it
	state       State // without Paused and Stalled, which follow from the rest
	progress    checkpoint.Progress
	failure     string
	restarts    int64
	epoch       int64
	runs        []Run // oldest first
	positions   debezium.Positions
	ends        map[debezium.Partition]int64
	behindSince time.Time // zero: nothing is behind
	completed   time.Time // when the last checkpoint was complete, or the run began
	checkpoints []Checkpoint
	tables      map[string]*Table
	doubts      []checkpoint.Doubt
	rows        int64 // of complete checkpoints since the process began
	ddl         map[sqlgen.DDLKind]int64
	asides      []Aside                       // by table and reason
	whole       checkpoint.SourceTransactions // of this run
	history     history
}

// New returns the port of a pipeline that has not begun to run.
func New(c Config) *Server {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{
		config: c, savepoints: make(chan chan<- checkpoint.Checkpoint), gate: checkpoint.NewGate(),
		started: time.Now().UTC(), streams: make(chan struct{}, maxStreams), state: Starting,
		ends: map[debezium.Partition]int64{}, tables: map[string]*Table{}, ddl: map[sqlgen.DDLKind]int64{},
	}
	s.metrics = newMetrics(s)
	return s
}

// Attach lets the port watch and steer the pipeline that c configures. What c would have told others it tells them still.
func (s *Server) Attach(c *checkpoint.Config, redact func(string) string) {
	c.Savepoints, c.Gate, c.Observe = s.savepoints, s.gate, s.observe
	progress, failed := c.Progress, c.Failed
	c.Progress = func(p checkpoint.Progress) {
		s.progressed(p)
		if progress != nil {
			progress(p)
		}
	}
	c.Failed = func(err error) {
		s.failed(err, redact(err.Error()))
		if failed != nil {
			failed(err)
		}
	}
}
