package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"replicator/cmd/replicator/demo"
)

func (a *app) demoCommand() *cobra.Command {
	var c demo.Config
	cmd := &cobra.Command{
		Use: "demo", Short: "The whole job on this machine, with nothing installed: killed on the way, and every row compared.", Args: cobra.NoArgs,
		Long: `Start a private PostgreSQL and a Kafka broker within this process, replicate a recorded Debezium stream with a child process
that is killed with SIGKILL again and again, some of the times between prepare and commit, and compare every row at the end.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return fmt.Errorf("find this program, to run it as a child process: %w", err)
			}
			c.Command, c.Out = []string{self}, a.stdout
			return demo.Run(cmd.Context(), c)
		},
	}
	cmd.Flags().BoolVar(&c.Keep, "keep", false, "leave database and broker running until Ctrl-C, to look at them")
	cmd.Flags().StringVar(&c.Dir, "dir", "", "keep configuration and logs in `DIR`")
	return cmd
}
