package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"replicator/debezium"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// Founding is what a checkpoint says of a pipeline that was given to a cluster: from its positions on each slot is a pipeline by itself.
type Founding struct {
	Slots  int    `json:"slots"`
	Source string `json:"source"` // the Kafka cluster
}

// ErrNotMember is the error of a [Group] that goes on without this process: it was silent for too long.
var ErrNotMember = errors.New("the group has put this process out")

// Group is this process's membership among the processes of a pipeline. Its methods are called by one goroutine. What it says is never
// relied on for safety, which is the stores' and the sinks' fence: see docs/adr/0020-cluster.md.
type Group interface {
	// Join takes part in the next division of the slots. held are those that this process runs, and what is returned those
	// that it is to run: some of held, and others that no member holds. It waits for the other members. After ErrNotMember
	// the process is new to the group, and may hold nothing when it joins.
	Join(ctx context.Context, held []int) ([]int, error)
	// Beat says that the process lives, and returns whether the members are to join again.
	Beat(ctx context.Context) (bool, error)
	// Leave gives up the membership.
	Leave(ctx context.Context) error
}

// Whole stands for the slot of a pipeline that is not divided.
const Whole = -1

// Cluster is a pipeline that several processes run: shared, or by one while the others stand by.
type Cluster struct {
	Pipeline string
	Standby  bool   // one process runs the pipeline, undivided
	Slots    int    // that the pipeline is divided into; with Standby, 0
	Source   string // identifies the Kafka cluster: a store that is shared with another must not mix them up

	Group   Group
	Session time.Duration // how long a member may be silent before the group goes on without it

	// Open connects what a run of a slot, or of the whole pipeline, needs. The function that it returns ends that. The Config is of the
	// pipeline that is named, its Source reads the slot's partitions only, and it has no observers.
	Open func(ctx context.Context, pipeline string, slot int) (Config, func() error, error)
	// Shared says whether partitions of a topic are in several slots.
	Shared func(ctx context.Context, topic string) (bool, error)

	Gate     *Gate
	Observe  func(Observation) // is told of all slots that the process runs as if they were one pipeline; may be nil, as may the next two
	Progress func(Progress)
	Failed   func(error)
	Log      *slog.Logger // nil: silent
}

// check completes c with defaults and says what is wrong with it.
func (c *Cluster) check() error {
	if c.Pipeline == "" || c.Group == nil || c.Open == nil || c.Session <= 0 {
		return errors.New("pipeline, group, session and open are required")
	}
	if c.Standby != (c.Slots == 0) || c.Slots < 0 {
		return errors.New("a cluster has slots, and a stand-by has none")
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Observe == nil {
		c.Observe = func(Observation) {}
	}
	if c.Progress == nil {
		c.Progress = func(Progress) {}
	}
	if c.Failed == nil {
		c.Failed = func(error) {}
	}
	return nil
}

// RunCluster takes part in running a pipeline until ctx is done, and then cuts a last checkpoint of each slot that this process runs,
// leaves the group and returns nil. Otherwise it returns an error that trying again would bring again.
func RunCluster(ctx context.Context, c Cluster) error {
	if err := c.check(); err != nil {
		return fmt.Errorf("pipeline %s: %w", c.Pipeline, err)
	}
	m := newMember(c)
	if !c.Standby {
		founding, err := c.founded(ctx)
		if err != nil {
			if ctx.Err() != nil && !txnsink.Permanent(err) {
				return nil // nothing was begun
			}
			return err
		}
		m.founding = founding
	}
	return m.run(ctx)
}

// foundingTries bounds how often the founding is begun anew because another process has come first.
const foundingTries = 20

// founded returns the founding of the cluster. It is made if there is none.
func (c *Cluster) founded(ctx context.Context) (*Checkpoint, error) {
	fenced := 0
	for delay := firstBackoff; ; delay = min(2*delay, lastBackoff) {
		founding, err := c.findOrFound(ctx)
		if err == nil {
			return founding, nil
		}
		err = fmt.Errorf("found the cluster of pipeline %s: %w", c.Pipeline, err)
		if errors.Is(err, txnsink.ErrFenced) && fenced < foundingTries {
			fenced++ // by another process, whose founding will be found
		} else if txnsink.Permanent(err) {
			return nil, err
		}
		c.Log.Warn("trying again to begin", "pipeline", c.Pipeline, "error", err, "in", delay)
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(delay):
		}
	}
}

func (c *Cluster) findOrFound(ctx context.Context) (_ *Checkpoint, err error) {
	config, done, err := c.Open(ctx, c.Pipeline, Whole)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, done()) }()
	if err := config.check(); err != nil {
		return nil, permanent(err)
	}
	saved, err := config.Store.List(ctx, c.Pipeline)
	if err != nil {
		return nil, err
	}
	if n := len(saved); n > 0 && saved[n-1].Founding != nil {
		return &saved[n-1], c.agrees(&saved[n-1])
	}
	r := &run{Config: config, founding: true}
	reader, err := r.recover(ctx)
	if err != nil {
		return nil, err
	}
	if err := reader.Close(); err != nil {
		return nil, err
	}
	founding := r.last
	founding.Founding = &Founding{Slots: c.Slots, Source: c.Source}
	founding.Txns, founding.Parts, founding.Rows, founding.Savepoint = nil, nil, 0, false
	if err := r.save(ctx, founding); err != nil {
		return nil, err
	}
	c.Log.Info("founded a cluster", "pipeline", c.Pipeline, "slots", c.Slots, "checkpoint", r.last.ID, "partitions", len(r.last.Positions))
	return &r.last, nil
}

// agrees refuses a founding that is not of this cluster.
func (c *Cluster) agrees(founding *Checkpoint) error {
	f := founding.Founding
	switch {
	case f.Source != "" && c.Source != "" && f.Source != c.Source:
		return permanent(fmt.Errorf("it was founded on the Kafka cluster %q, and source.brokers are of %q: if two clusters share this store, "+
			"give each pipeline a name of its own", f.Source, c.Source))
	case f.Slots != c.Slots:
		return permanent(fmt.Errorf("it was founded with %d slots: set membership.slots to that, and not to %d", f.Slots, c.Slots))
	}
	return nil
}

// errFounded says that another process has founded the cluster meanwhile.
var errFounded = errors.New("another process was first")

// mayRecover refuses to run a pipeline alone that was given to a cluster, and to found a cluster twice: slots would begin twice.
func (r *run) mayRecover(last *Checkpoint) error {
	switch {
	case last.Founding == nil:
		return nil
	case r.founding:
		return errFounded
	}
	return permanent(fmt.Errorf("pipeline %s is a cluster's of %d slots since its checkpoint %d: set cluster: true", r.Pipeline, last.Founding.Slots, last.ID))
}

// part returns what of a founding belongs to a slot.
func (c *Cluster) part(founding *Checkpoint, slot int) *Checkpoint {
	out := &Checkpoint{Positions: debezium.Positions{}, Ahead: founding.Ahead}
	for p, at := range founding.Positions {
		if SlotOf(p, c.Slots) == slot {
			out.Positions[p] = at
		}
	}
	out.Seen = slices.DeleteFunc(slices.Clone(founding.Seen), func(s Seen) bool { return SlotOf(s.partition(), c.Slots) != slot })
	out.Ahead = beyond(out.Ahead, out.Positions)
	return out
}

// heir is the sink of a slot, which also knows what the whole pipeline had defined before the cluster was founded.
type heir struct {
	txnsink.Sink
	from string
}

// Defined puts the slot's own definitions over the ones that it inherits.
func (h heir) Defined(ctx context.Context, pipeline string) ([]txnsink.Defined, error) {
	inherited, err := h.Sink.Defined(ctx, h.from)
	if err != nil {
		return nil, err
	}
	own, err := h.Sink.Defined(ctx, pipeline)
	if err != nil {
		return nil, err
	}
	for _, d := range inherited {
		if !slices.ContainsFunc(own, func(o txnsink.Defined) bool { return o.Source == d.Source }) {
			own = append(own, d)
		}
	}
	return own, nil
}

// mayShare refuses rows that depend on others than those of their own key where these may be another slot's: which of two comes first is
// decided by nobody there.
func (r *router) mayShare(ctx context.Context, e *debezium.Event, t *sqlgen.Target) error {
	why := dependsOn(e, t, r.tables.entry(tableOf(e)).rules())
	if why == "" {
		return nil
	}
	if !t.Table.Tied { // to tables of other topics
		switch shared, err := r.shared(ctx, e.Partition.Topic); {
		case err != nil:
			return fmt.Errorf("ask for the partitions of topic %s: %w", e.Partition.Topic, err)
		case !shared:
			return nil
		}
	}
	return permanent(fmt.Errorf("record %v at offset %d: table %v cannot be shared: %s: run the pipeline without cluster, or leave the table out",
		e.Partition, e.Offset, t.Table.Name, why))
}

// dependsOn says which rows of other slots an event may depend on; empty: none.
func dependsOn(e *debezium.Event, t *sqlgen.Target, rules *sqlgen.Rules) string {
	switch {
	case t.Table.Tied:
		return "the target checks its foreign keys, and the tables that they refer to may be in other slots (a role that may set session_replication_role is not checked)"
	case e.Op == debezium.Truncate && rules.Truncate != sqlgen.TruncateIgnore:
		return "it was truncated at the source, and rows in other partitions of its topic may come before or after that"
	case t.Trades():
		return "it has a unique index besides its key, and rows in other partitions of its topic may give up the values that this one takes"
	case len(t.Key) == 0 && e.Op != debezium.Create && e.Op != debezium.Read:
		return "it has no key, and the row that is changed may have come in another partition of its topic"
	}
	return ""
}

// askedOnce returns ask, which is asked once for each topic, for a run's router.
func askedOnce(ask func(context.Context, string) (bool, error)) func(context.Context, string) (bool, error) {
	known := map[string]bool{}
	return func(ctx context.Context, topic string) (bool, error) {
		if shared, ok := known[topic]; ok {
			return shared, nil
		}
		shared, err := ask(ctx, topic)
		if err == nil {
			known[topic] = shared
		}
		return shared, err
	}
}
