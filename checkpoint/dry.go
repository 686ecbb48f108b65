package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// Plan is told what a pipeline would do, in order. Its errors end the dry run, which returns them.
type Plan interface {
	// Define is DDL, between two transactions.
	Define(ctx context.Context, statements []string) error
	// Begin, Apply and End are one transaction. The statements share memory that is used again afterwards.
	Begin(ctx context.Context, id txnsink.ID) error
	Apply(ctx context.Context, batch []sqlgen.Statement) error
	End(ctx context.Context) error
}

// DryRun goes on from the pipeline's last checkpoint as [Run] does, and tells p what it would do in place of doing it: nothing is
// written to the target or the store, and a pipeline that runs meanwhile is left alone. Own says whether the target and the store have the pipeline's own tables
// yet. It ends when c says, when ctx is done, or at the first failure. Records are not set aside, nor is what the target would refuse known.
func DryRun(ctx context.Context, c Config, own bool, p Plan) error {
	c.Delivery, c.Workers, c.Letters, c.WriteAhead = TwoPhase, 1, nil, nil
	if c.Sink == nil || c.Store == nil {
		return fmt.Errorf("pipeline %s: sink and store are required", c.Pipeline)
	}
	c.Sink = &drySink{Sink: c.Sink, config: &c, own: own, plan: p, made: map[schema.Name]*schema.Table{}}
	c.Store = &dryStore{Store: c.Store, own: own}
	if err := c.check(); err != nil {
		return fmt.Errorf("pipeline %s: %w", c.Pipeline, err)
	}
	return (&run{Config: c, stop: ctx.Done(), widen: widening{}, refused: refusals{}}).once(ctx)
}

// dryStore gives the last checkpoint out as Acquire does, and forgets what is saved.
type dryStore struct {
	Store
	own bool
}

func (s *dryStore) Acquire(ctx context.Context, pipeline string) (Checkpoint, error) {
	last := Checkpoint{Pipeline: pipeline}
	if s.own {
		list, err := s.List(ctx, pipeline)
		if err != nil {
			return last, err
		}
		if len(list) > 0 {
			last = list[len(list)-1]
		}
	}
	last.Epoch++
	last.Txns, last.Parts = nil, nil // whoever runs the pipeline commits them
	return last, nil
}

func (s *dryStore) Save(context.Context, Checkpoint, int) error { return nil }

// drySink is the target as it would be: what is defined is remembered and not done.
type drySink struct {
	txnsink.Sink
	config *Config
	own    bool
	plan   Plan
	made   map[schema.Name]*schema.Table // as they would be; nil: dropped
}

func (s *drySink) Fence(context.Context, string, int64, int) error { return nil }

func (s *drySink) Commit(context.Context, txnsink.ID) error { return nil }

func (s *drySink) Abort(context.Context, txnsink.ID) error { return nil }

func (s *drySink) Pending(context.Context, string) ([]txnsink.Prepared, error) { return nil, nil }

func (s *drySink) Notes(context.Context, string) ([]txnsink.Note, error) { return nil, nil }

func (s *drySink) Defined(ctx context.Context, pipeline string) ([]txnsink.Defined, error) {
	if !s.own {
		return nil, nil
	}
	return s.Sink.Defined(ctx, pipeline)
}

func (s *drySink) Table(ctx context.Context, name schema.Name) (*schema.Table, error) {
	if t, ok := s.made[name]; ok {
		return t, nil
	}
	return s.Sink.Table(ctx, name)
}

// Define works out what the tables would be after the DDL.
func (s *drySink) Define(ctx context.Context, d txnsink.Definition) error {
	if len(d.DDL) == 0 {
		return nil
	}
	if err := s.plan.Define(ctx, d.DDL); err != nil {
		return err
	}
	t := &tables{Config: *s.config, dialect: s.Dialect(), entries: map[sourceTable]*entry{}}
	t.Log = slog.New(slog.DiscardHandler)
	for _, def := range d.Defined {
		var n tableNote
		if err := json.Unmarshal([]byte(def.State), &n); err != nil {
			return fmt.Errorf("what is to be remembered of table %s: %w", def.Source, err)
		}
		if n.Table == nil {
			s.made[def.Target] = nil
			continue
		}
		rules := &sqlgen.Rules{}
		for i := range s.config.Tables.Rules {
			if r := &s.config.Tables.Rules[i]; r.Match.MatchString(def.Source) {
				rules = &r.Rows
				break
			}
		}
		table, err := t.arranged(rules, *n.Table, def.Target)
		if err != nil {
			return err
		}
		if err := s.keep(ctx, &table); err != nil {
			return err
		}
		s.made[def.Target] = &table
	}
	return nil
}

// keep gives columns that a table has, and that only its first definition finds, the types that they have.
func (s *drySink) keep(ctx context.Context, table *schema.Table) error {
	if _, again := s.made[table.Name]; again {
		return nil
	}
	there, err := s.Sink.Table(ctx, table.Name)
	if err != nil || there == nil {
		return err
	}
	table.Name, table.PrimaryKey = there.Name, there.PrimaryKey
	merged := there.Columns
	for _, c := range table.Columns {
		if _, ok := there.Column(c.Name); !ok {
			merged = append(merged, c)
		}
	}
	table.Columns = merged
	return nil
}

func (s *drySink) Begin(ctx context.Context, id txnsink.ID) (txnsink.Txn, error) {
	return &dryTxn{s.plan, id}, s.plan.Begin(ctx, id)
}

// dryTxn is a transaction that is told.
type dryTxn struct {
	plan Plan
	id   txnsink.ID
}

func (t *dryTxn) ID() txnsink.ID { return t.id }

func (t *dryTxn) Apply(ctx context.Context, batch []sqlgen.Statement) error {
	return t.plan.Apply(ctx, batch)
}

func (t *dryTxn) PreCommit(ctx context.Context) error { return t.plan.End(ctx) }

func (t *dryTxn) Commit(context.Context, []byte) error {
	return errors.New("a dry run's transactions are prepared only")
}

func (t *dryTxn) Abort(context.Context) error { return nil }
