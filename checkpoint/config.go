package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// Delivery is what a pipeline promises, and so the order in which a checkpoint is completed.
type Delivery string

// The deliveries; the package's text says what each does.
const (
	TwoPhase    Delivery = "two-phase"
	OnePhase    Delivery = "one-phase"
	WriteAhead  Delivery = "write-ahead"
	AtLeastOnce Delivery = "at-least-once"
	AtMostOnce  Delivery = "at-most-once"
)

// Config is one pipeline. [Run] checks it.
type Config struct {
	Pipeline string
	Delivery Delivery

	// A checkpoint is cut at the first of Interval, Rows and Bytes, and MinInterval after the one before when the
	// source has nothing more to read.
	Interval    time.Duration
	MinInterval time.Duration
	Rows        int   // events
	Bytes       int64 // of events, as they were in Kafka
	Retain      int   // checkpoints that the store keeps

	Workers int // lanes

	Source  Source
	Sink    txnsink.Sink
	Store   Store
	Decoder *debezium.Decoder

	WriteAhead StatementLog // beside the Store; needed for the delivery of that name, and to change from it to another

	Tables TablesConfig

	Letters     Letters     // where records that cannot be decoded or stored are set aside; nil: such a record ends the pipeline
	LetterTopic LetterTopic // takes copies of them; nil: nobody does

	Whole *WholeTransactions // keeps the source's transactions whole; nil: a checkpoint is cut anywhere

	// Deduplicate drops events that their source's own position shows to be sent again, as Debezium does after it
	// restarted.
	Deduplicate bool

	UntilCaughtUp bool  // stop after a last checkpoint when every partition has reached the end that it had at start
	From          int64 // start from this saved checkpoint instead of the last; 0: the last
	// Replay allows From to be older than what the target holds in an exactly-once delivery: the rows are keyed and
	// converge, or the tables were emptied.
	Replay bool
	// Until and UntilTime end the run, after a last checkpoint, at positions or before the first event of each partition
	// whose source committed it after a time. They imply UntilCaughtUp: a partition that ends before ends there.
	Until     debezium.Positions // nil: none; a partition that it does not name is not read
	UntilTime time.Time

	// Savepoints asks a run for a checkpoint that pruning keeps. The answer is sent when it is complete, if the channel
	// that was asked with has room for it; a run that fails meanwhile sends none. It may be nil.
	Savepoints <-chan chan<- Checkpoint

	// Gate pauses the pipeline. It may be nil.
	Gate *Gate

	// Observe is called by several goroutines, each of which waits for it: it must be quick. What it is given is not to be
	// changed. It may be nil.
	Observe func(Observation)

	Log      *slog.Logger
	Progress func(Progress) // called by one goroutine, when a run begins and after each batch and each checkpoint; may be nil
	Failed   func(error)    // called before each new start after a failure, see FailedIn; may be nil

	// Of a slot of a cluster, see [RunCluster]:
	origin *Checkpoint                                           // where it begins without a checkpoint; nil: the source's start policy says
	begin  func(context.Context) bool                            // waits until the process may begin a run, or is stopped: false; nil: it may
	shared func(ctx context.Context, topic string) (bool, error) // whether partitions of a topic are in several slots; nil: none are
}

// Progress is how far a run has come.
type Progress struct {
	Events     int64                    // events routed since the start of the run
	Rows       int64                    // events of committed checkpoints since the start of the run
	Repeated   int64                    // events dropped since the start of the run, because they were sent again
	Skipped    int64                    // records that change no row since the start of the run: logical messages, tombstones, heartbeats and the like
	Aside      int64                    // records set aside since the start of the run, with those that follow others of their row
	AsideRows  int64                    // rows that wait, because records of theirs are set aside
	DDL        map[sqlgen.DDLKind]int64 // statements since the start of the run that changed the target's schema; not to be changed
	Checkpoint int64                    // the last one saved
	Oldest     time.Time                // when the source committed the oldest event that was read and is in no complete checkpoint; zero: there is none
	Lag        int64                    // offsets between the positions and the last stable offsets that were seen
	ToGo       int64                    // until caught up: offsets left to the ends at start
	Total      int64                    // until caught up: offsets from the start to the ends at start
}

// TablesConfig says which table of the target a source's table goes to.
type TablesConfig struct {
	Template    string        // of the target's name: {topic} {database} {schema} {table}; a dot outside of them separates the target's schema
	Rules       []Rule        // the first that matches wins
	Create      bool          // create missing tables
	Indexes     bool          // make the source's indexes with the tables, and follow their changes
	Evolve      schema.Policy // what becomes of the source's schema changes
	SchemaTopic string        // Debezium's schema-change topic; empty: none
	// SchemaWait bounds how long a row of a table that the schema-change topic has not described yet waits for it.
	SchemaWait time.Duration
	Options    sqlgen.Options
}

// Rule is what the configuration says about some tables.
type Rule struct {
	Match  *regexp.Regexp // anchored; of "database.schema.table", or "database.table" where there is no schema
	Skip   bool
	Target string        // a template in place of TablesConfig.Template; empty: that one
	Evolve schema.Policy // in place of TablesConfig.Evolve; empty: that one
	Rows   sqlgen.Rules
}

// check completes c with defaults and says what is wrong with it.
func (c *Config) check() error {
	switch c.Delivery {
	case TwoPhase, OnePhase, AtLeastOnce, AtMostOnce:
	case WriteAhead:
		if c.WriteAhead == nil {
			return errors.New("delivery write-ahead needs a store that keeps a log of statements")
		}
		if c.Letters != nil { // the target sees a record when its checkpoint is saved, and cannot be without it any more
			return errors.New("in delivery write-ahead records cannot be set aside")
		}
	default:
		return fmt.Errorf("delivery %q is not served", c.Delivery)
	}
	if c.Pipeline == "" || c.Source == nil || c.Sink == nil || c.Store == nil || c.Decoder == nil {
		return errors.New("pipeline, source, sink, store and decoder are required")
	}
	if c.Interval <= 0 || c.MinInterval < 0 || c.Rows <= 0 || c.Bytes <= 0 || c.Retain <= 0 || c.Workers <= 0 {
		return errors.New("checkpoint interval, rows, bytes, retain and workers must be positive")
	}
	if c.Tables.Template == "" {
		c.Tables.Template = "{table}"
	}
	switch c.Tables.Evolve {
	case "":
		c.Tables.Evolve = schema.Evolve
	case schema.Stop, schema.Evolve, schema.Lenient, schema.Ignore:
	default:
		return fmt.Errorf("schema policy %q is not served", c.Tables.Evolve)
	}
	if c.Whole != nil {
		if err := c.Whole.check(c); err != nil {
			return err
		}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Until != nil || !c.UntilTime.IsZero() {
		c.UntilCaughtUp = true
	}
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	if c.Gate == nil {
		c.Gate = NewGate()
	}
	if c.Observe == nil {
		c.Observe = func(Observation) {}
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	return nil
}

// sourceTable names a table of the source.
type sourceTable struct{ database, schema, table string }

func (s sourceTable) String() string {
	n := schema.Name{Schema: s.schema, Table: s.table}.String()
	if s.database == "" {
		return n
	}
	return s.database + "." + n
}
