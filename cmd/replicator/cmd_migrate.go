package main

import (
	"fmt"

	"github.com/spf13/cobra"
)

func (a *app) migrateCommand() *cobra.Command {
	return group("migrate", "The replicator's own tables in the target.", a.migrateUp(), a.migrateStatus())
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
