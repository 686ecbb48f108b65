package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) migrateCommand() *cobra.Command {
	return group("migrate", "The replicator's own tables, in the target and in a checkpoint store of its own.", a.migrateUp(), a.migrateDown(), a.migrateStatus())
}

func (a *app) migrateUp() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "up --config FILE", Short: "Create them, or bring them up to date. run does so by itself, unless migrate is manual.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(&f)
			if err != nil {
				return err
			}
			if err := migrateUp(cmd.Context(), &c, c.Target.URL); err != nil {
				return inPipeline(&c, err)
			}
			if !ownStore(&c) {
				return nil
			}
			if err := migrateUp(cmd.Context(), &c, storeURL(&c)); err != nil {
				return inPipeline(&c, fmt.Errorf("checkpoint.store: %w", err))
			}
			return nil
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) migrateDown() *cobra.Command {
	var f configFlags
	var to int
	cmd := &cobra.Command{
		Use: "down --config FILE --to VERSION", Short: "Bring them back to an earlier version, before an older program is installed.", Args: cobra.NoArgs,
		Long: `Bring the own tables back to an earlier version, for an older program. Stop the pipelines first, by SIGTERM. No position is lost;
where the older tables have no room for what is there, such as records that are set aside, it stops before that step. It is about the
target; name a checkpoint store in a database of its own by --set target.url=URL.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(&f)
			if err != nil {
				return err
			}
			if err := migrateDown(cmd.Context(), &c, to); err != nil {
				return inPipeline(&c, err)
			}
			return nil
		},
	}
	f.add(cmd)
	cmd.Flags().IntVar(&to, "to", 0, "the version, as the older program's `migrate status` says that it needs")
	return cmd
}

// migrationFacts is what --json prints.
type migrationFacts struct {
	tablesVersion
	Store *tablesVersion `json:"store,omitempty"` // of a checkpoint store in a database of its own
}

func (a *app) migrateStatus() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "status --config FILE", Short: "Say which version they have, and which this program needs. It changes nothing.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(&f)
			if err != nil {
				return err
			}
			return a.showVersions(cmd.Context(), &c)
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) showVersions(ctx context.Context, c *config) error {
	var m migrationFacts
	var err error
	if m.tablesVersion, err = lookAtVersion(ctx, c, c.Target.URL); err != nil {
		return inPipeline(c, err)
	}
	if ownStore(c) {
		v, err := lookAtVersion(ctx, c, storeURL(c))
		if err != nil {
			return inPipeline(c, fmt.Errorf("checkpoint.store: %w", err))
		}
		m.Store = &v
	}
	if a.json {
		return a.printJSON(m)
	}
	own := "own tables"
	if isKafka(c.Target.URL) {
		own = "target's topics"
	}
	_, err = fmt.Fprintf(a.stdout, "the %s have version %d; this program needs %d\n", own, m.Current, m.Latest)
	if err == nil && m.Store != nil {
		_, err = fmt.Fprintf(a.stdout, "those of checkpoint.store have version %d; this program needs %d\n", m.Store.Current, m.Store.Latest)
	}
	return err
}
