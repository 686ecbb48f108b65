package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"replicator/checkpoint"
)

func (a *app) schemaCommand() *cobra.Command {
	return group("schema", "The tables of the target, by what the schema-change topic says of the source's.", a.schemaPlan(), a.schemaApply())
}

func (a *app) schemaPlan() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "plan --config FILE", Short: "Print the DDL that would bring the target's tables up to the source's, and change nothing.", Args: cobra.NoArgs,
		Long: `Print the DDL that would bring the target's tables up to the source's, and change nothing; nothing is printed if they are.
The source is read from its schema-change topic alone (source.schema_changes). Missing tables, columns, keys and indexes are added, too
narrow types widened; what the target has besides stays. With schema.indexes: false a pipeline loads tables without their indexes; then
this prints them.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(&f)
			if err != nil {
				return err
			}
			return a.onSchema(cmd.Context(), &c, func(_ context.Context, _ checkpoint.Config, plans []checkpoint.SchemaPlan) error {
				return a.printPlans(plans)
			})
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) schemaApply() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "apply --config FILE", Short: "Run what schema plan prints.", Args: cobra.NoArgs,
		Long: `Run what schema plan prints, a transaction for each table, and print it. Indexes may be added while the pipeline runs, which waits for
each table meanwhile; stop it before anything else. If anything is refused, nothing is run.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(&f)
			if err != nil {
				return err
			}
			return a.onSchema(cmd.Context(), &c, func(ctx context.Context, p checkpoint.Config, plans []checkpoint.SchemaPlan) error {
				if err := checkpoint.ApplySchema(ctx, p, plans); err != nil {
					return err
				}
				return a.printPlans(plans)
			})
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}

// onSchema plans, and hands the plans over while everything is connected.
func (a *app) onSchema(ctx context.Context, c *config, do func(context.Context, checkpoint.Config, []checkpoint.SchemaPlan) error) (err error) {
	if err := needsDatabase(c, "schema"); err != nil {
		return inPipeline(c, err)
	}
	log := c.logger(a.stderr)
	e := &ends{}
	if e.source, err = openSource(c, log); err != nil {
		return inPipeline(c, err)
	}
	if e.decoder, err = openDecoder(c, log); err != nil {
		return inPipeline(c, err)
	}
	if e.sink, err = openSink(ctx, c, log); err != nil {
		return inPipeline(c, err)
	}
	defer func() {
		if cerr := e.close(); cerr != nil {
			err = errors.Join(err, inPipeline(c, cerr))
		}
	}()
	// What the target remembers of its tables is read from the own tables.
	if err := needOwnTables(ctx, c, c.Target.URL); err != nil {
		return inPipeline(c, err)
	}
	p := pipelineConfig(c, e, log)
	plans, err := checkpoint.PlanSchema(ctx, p, c.wantsTopic())
	if err != nil {
		return inPipeline(c, err)
	}
	if err := do(ctx, p, plans); err != nil {
		return inPipeline(c, err)
	}
	return nil
}

// wantsTopic says which topics source.topics is about.
func (c *config) wantsTopic() func(string) bool {
	var list []*regexp.Regexp
	for _, e := range c.Source.Topics {
		list = append(list, regexp.MustCompile("^(?:"+e+")$")) // the key's check has compiled it
	}
	return func(topic string) bool {
		for _, e := range list {
			if e.MatchString(topic) {
				return topic != c.Source.SchemaChanges && topic != c.Source.Transactions
			}
		}
		return false
	}
}

// plannedTable is what --json prints of a table.
type plannedTable struct {
	Source     string   `json:"source"`
	Target     string   `json:"target"`
	Statements []string `json:"statements"`
	Refused    []string `json:"refused,omitempty"`
	Kept       []string `json:"kept,omitempty"`
}

// printPlans prints statements, and fails if any table's are refused.
func (a *app) printPlans(plans []checkpoint.SchemaPlan) error {
	out := make([]plannedTable, 0, len(plans))
	var refused []error
	for _, p := range plans {
		t := plannedTable{Source: p.Source, Target: p.Target.String(), Statements: []string{}}
		for _, s := range p.Statements {
			t.Statements = append(t.Statements, s.SQL)
		}
		for _, r := range p.Refused {
			t.Refused = append(t.Refused, r.Error())
			refused = append(refused, fmt.Errorf("source table %s: %w", p.Source, r))
		}
		for _, k := range p.Kept {
			t.Kept = append(t.Kept, strings.TrimSpace(k.Column+" "+k.Why))
		}
		out = append(out, t)
	}
	if a.json {
		return errors.Join(append(refused, a.printJSON(out))...)
	}
	for _, t := range out {
		if _, err := fmt.Fprintf(a.stdout, "-- %s to %s\n", t.Source, t.Target); err != nil {
			return err
		}
		for _, k := range t.Kept {
			if _, err := fmt.Fprintf(a.stdout, "-- left out: %s\n", k); err != nil {
				return err
			}
		}
		for _, s := range t.Statements {
			if _, err := fmt.Fprintf(a.stdout, "%s;\n", s); err != nil {
				return err
			}
		}
	}
	return errors.Join(refused...)
}
