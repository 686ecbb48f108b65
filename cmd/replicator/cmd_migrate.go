package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) migrateCommand() *cobra.Command {
	return group("migrate", "The replicator's own tables in the target.", a.migrateUp(), a.migrateDown(), a.migrateStatus())
}

func (a *app) migrateUp() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "up --config FILE", Short: "Create them, or bring them up to date. run does so by itself.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(&f)
			if err != nil {
				return err
			}
			return migrateUp(cmd.Context(), &c, c.Target.URL)
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
where the older tables have no room for what is there, such as records that are set aside, it stops before that step.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(&f)
			if err != nil {
				return err
			}
			return migrateDown(cmd.Context(), &c, to)
		},
	}
	f.add(cmd)
	cmd.Flags().IntVar(&to, "to", 0, "the version, as the older program's `migrate status` says that it needs")
	return cmd
}

// migrationFacts is what --json prints.
type migrationFacts struct {
	Current int `json:"current"`
	Latest  int `json:"latest"`
}

func (a *app) migrateStatus() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "status --config FILE", Short: "Say which version they have, and which this program needs.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(&f)
			if err != nil {
				return err
			}
			m, err := migrationStatus(cmd.Context(), &c)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(m)
			}
			fmt.Fprintf(a.stdout, "the own tables have version %d; this program needs %d\n", m.Current, m.Latest)
			return nil
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}
