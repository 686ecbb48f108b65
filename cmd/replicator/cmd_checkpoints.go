package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/txnsink"
)

func (a *app) checkpointsCommand() *cobra.Command {
	return group("checkpoints", "The pipeline's saved checkpoints.",
		a.checkpointsList(), a.checkpointsShow(), a.checkpointsSave(), a.checkpointsExport(), a.checkpointsImport(), a.checkpointsPrune())
}

func (a *app) checkpointsList() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "list --config FILE", Short: "List the saved checkpoints, oldest first.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), &f, a.listCheckpoints)
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) checkpointsShow() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "show ID --config FILE", Short: "Show one checkpoint: positions and transactions.", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := checkpointID(args[0])
			if err != nil {
				return err
			}
			return a.withStore(cmd.Context(), &f, func(ctx context.Context, c *config, s checkpoint.Store) error {
				return a.showCheckpoint(ctx, c, s, id)
			})
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}

// withStore lends do the pipeline's store.
func (a *app) withStore(ctx context.Context, f *configFlags, do func(context.Context, *config, checkpoint.Store) error) error {
	c, err := a.load(f)
	if err != nil {
		return err
	}
	return a.lendStore(ctx, &c, do)
}

// withOwnTables is withStore where the store may be new: its tables are made as run makes them.
func (a *app) withOwnTables(ctx context.Context, f *configFlags, do func(context.Context, *config, checkpoint.Store) error) error {
	c, err := a.load(f)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(c.Checkpoint.Store, "file:") {
		if err := needOwnTables(ctx, &c, storeURL(&c)); err != nil {
			return inPipeline(&c, fmt.Errorf("checkpoint.store: %w", err))
		}
	}
	return a.lendStore(ctx, &c, do)
}

func (a *app) lendStore(ctx context.Context, c *config, do func(context.Context, *config, checkpoint.Store) error) error {
	s, err := openStore(ctx, c)
	if err != nil {
		return inPipeline(c, fmt.Errorf("open checkpoint.store: %w", err))
	}
	if err := errors.Join(do(ctx, c, s), s.Close()); err != nil {
		return inPipeline(c, err)
	}
	return nil
}

// checkpointFacts is a checkpoint as --json prints it.
type checkpointFacts struct {
	ID        int64           `json:"id"`
	Epoch     int64           `json:"epoch"`
	Created   time.Time       `json:"created"`
	Rows      int64           `json:"rows"`
	Savepoint bool            `json:"savepoint"`
	Txns      []txnsink.ID    `json:"transactions"`
	Positions []positionFacts `json:"positions"`
}

type positionFacts struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	debezium.Position
}

func factsOf(c checkpoint.Checkpoint) checkpointFacts {
	f := checkpointFacts{
		ID: c.ID, Epoch: c.Epoch, Created: c.Created, Rows: c.Rows, Savepoint: c.Savepoint,
		Txns: append([]txnsink.ID{}, c.Txns...), Positions: []positionFacts{},
	}
	for p, pos := range c.Positions {
		f.Positions = append(f.Positions, positionFacts{p.Topic, p.ID, pos})
	}
	slices.SortFunc(f.Positions, func(a, b positionFacts) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	return f
}

func (a *app) listCheckpoints(ctx context.Context, c *config, s checkpoint.Store) error {
	list, err := s.List(ctx, c.Pipeline)
	if err != nil {
		return err
	}
	if a.json {
		facts := make([]checkpointFacts, len(list))
		for i, cp := range list {
			facts[i] = factsOf(cp)
		}
		return a.printJSON(facts)
	}
	return a.table("ID\tEPOCH\tCREATED\tROWS\tPARTITIONS\tTRANSACTIONS\tSAVEPOINT", func(w *tabwriter.Writer) {
		for _, cp := range list {
			fmt.Fprintf(w, "%d\t%d\t%s\t%d\t%d\t%d\t%s\n", cp.ID, cp.Epoch, cp.Created.Format(time.RFC3339Nano), cp.Rows, len(cp.Positions), len(cp.Txns), yes(cp.Savepoint))
		}
	})
}

func (a *app) showCheckpoint(ctx context.Context, c *config, s checkpoint.Store, id int64) error {
	cp, err := s.Load(ctx, c.Pipeline, id)
	if err != nil {
		return fmt.Errorf("%w; see replicator checkpoints list", err)
	}
	f := factsOf(cp)
	if a.json {
		return a.printJSON(f)
	}
	if _, err := fmt.Fprintf(a.stdout, "checkpoint %d of pipeline %s\nepoch      %d\ncreated    %s\nrows       %d\nsavepoint  %s\n",
		f.ID, c.Pipeline, f.Epoch, f.Created.Format(time.RFC3339Nano), f.Rows, yes(f.Savepoint)); err != nil {
		return err
	}
	for _, id := range f.Txns {
		if _, err := fmt.Fprintf(a.stdout, "commits    %v\n", id); err != nil {
			return err
		}
	}
	return a.table("\nTOPIC\tPARTITION\tNEXT OFFSET\tTOPIC ID", func(w *tabwriter.Writer) {
		for _, p := range f.Positions {
			fmt.Fprintf(w, "%s\t%d\t%d\t%s\n", p.Topic, p.Partition, p.Offset, p.TopicID)
		}
	})
}

// table writes rows below a head, in columns.
func (a *app) table(head string, rows func(*tabwriter.Writer)) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, head)
	rows(w)
	return w.Flush() // it keeps the first error of a write
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
