package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"replicator/checkpoint"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
	"replicator/txnsink/postgres"
)

// sqlFlags are the flags of sql.
type sqlFlags struct {
	configFlags
	untilCaughtUp bool
	limit         int
	events        string
}

func (a *app) sqlCommand() *cobra.Command {
	var f sqlFlags
	cmd := &cobra.Command{
		Use: "sql --config FILE", Short: "Print the SQL that run would run from the last checkpoint on, and touch nothing.", Args: cobra.NoArgs,
		Long: `Print the SQL that run would run from the last checkpoint on, a transaction at a time, with values as literals.
Nothing is written to the target, to Kafka or to the checkpoint store, and a pipeline that runs meanwhile is left alone. What
the target would refuse shows only when run runs it. Where run tries what is faster first, such as COPY, the statement is printed that
has the same effect on any target.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.limit < 0 {
				return usage(fmt.Errorf("--limit %d: must be a number of transactions, or 0 for all", f.limit))
			}
			c, err := a.load(&f.configFlags)
			if err != nil {
				return err
			}
			if err := a.sql(cmd.Context(), &c, &f); err != nil {
				return inPipeline(&c, err)
			}
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.untilCaughtUp, "until-caught-up", false, "stop when every partition has reached the end that it had at start")
	cmd.Flags().IntVar(&f.limit, "limit", 0, "stop after `N` transactions; 0: do not")
	cmd.Flags().StringVar(&f.events, "events", "", "read the events of `FILE.jsonl` from its beginning in place of Kafka's, a line for each record: {\"topic\": ..., \"key\": ..., \"value\": ...}")
	return cmd
}

func (a *app) sql(ctx context.Context, c *config, f *sqlFlags) (err error) {
	log := c.logger(a.stderr)
	e := &ends{}
	defer func() { err = errors.Join(err, e.close()) }()
	if e.source, err = openSource(c, log); err != nil {
		return err
	}
	if e.decoder, err = openDecoder(c, nil); err != nil {
		return err
	}
	if isMySQL(c.Target.URL) {
		return errors.New("sql prints for PostgreSQL only: the target is MySQL or MariaDB")
	}
	sink, err := openPostgres(ctx, c, log)
	if err != nil {
		return err
	}
	e.sink = sink
	own, err := e.lookAtOwn(ctx, c)
	if err != nil {
		return err
	}
	p := pipelineConfig(c, e, log)
	p.UntilCaughtUp = f.untilCaughtUp
	if f.events != "" {
		events, err := readEvents(f.events)
		if err != nil {
			return err
		}
		p.Source = eventsSource{events, events.without(c.Source.SchemaChanges, c.Source.Transactions)}
		p.UntilCaughtUp, own = true, false // no checkpoint is of this file
	}
	plan := &printedPlan{out: a.stdout, sink: sink, left: f.limit}
	err = checkpoint.DryRun(ctx, p, own, plan)
	if errors.Is(err, errPrinted) || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	if err == nil && !plan.begun {
		_, err = fmt.Fprintln(a.stderr, "replicator: there is nothing to apply after the last checkpoint")
	}
	return err
}

// lookAtOwn opens the store, and says whether the pipeline's own tables are there yet. It makes none.
func (e *ends) lookAtOwn(ctx context.Context, c *config) (bool, error) {
	table, err := e.sink.Table(ctx, schema.Name{Schema: "replicator", Table: "schema_version"})
	if err != nil {
		return false, err
	}
	own := table != nil
	if dir, ok := strings.CutPrefix(c.Checkpoint.Store, "file:"); ok {
		if _, err := os.Stat(dir); err != nil {
			if !errors.Is(err, os.ErrNotExist) {
				return false, fmt.Errorf("checkpoint.store: %w", err)
			}
			own = false
			e.store = noStore{}
			return own, nil
		}
	}
	if e.store, err = openStore(ctx, c); err != nil {
		return false, fmt.Errorf("open checkpoint.store %s: %w", redact(c.Checkpoint.Store), err)
	}
	return own, nil
}

// noStore is a store that nobody has made yet. A dry run asks it nothing.
type noStore struct{ checkpoint.Store }

// Close does nothing.
func (noStore) Close() error { return nil }

// errPrinted ends a dry run that has printed what was asked for.
var errPrinted = errors.New("printed")

// printedPlan prints what a pipeline would do.
type printedPlan struct {
	out  io.Writer
	sink *postgres.Sink
	left int // transactions to print; 0: do not count

	begun bool // a transaction was printed
}

func (p *printedPlan) Define(_ context.Context, statements []string) error {
	for _, s := range statements {
		if err := p.statement(s); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(p.out)
	return err
}

func (p *printedPlan) Begin(_ context.Context, id txnsink.ID) error {
	p.begun = true
	_, err := fmt.Fprintf(p.out, "BEGIN; -- checkpoint %d\n", id.Checkpoint)
	return err
}

func (p *printedPlan) Apply(ctx context.Context, batch []sqlgen.Statement) error {
	for i := range batch {
		list := batch[i : i+1]
		if batch[i].Instead != nil { // what is fast depends on what the target holds; this never does
			list = batch[i].Instead()
		}
		for j := range list {
			text, err := p.sink.Text(ctx, &list[j])
			if err != nil {
				return err
			}
			if err := p.statement(text); err != nil {
				return err
			}
		}
	}
	return nil
}

func (p *printedPlan) End(context.Context) error {
	if _, err := fmt.Fprint(p.out, "COMMIT;\n\n"); err != nil {
		return err
	}
	if p.left--; p.left == 0 {
		return errPrinted
	}
	return nil
}

func (p *printedPlan) statement(sql string) error {
	_, err := fmt.Fprintf(p.out, "%s;\n", strings.TrimRight(sql, "; \n"))
	return err
}
