package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"replicator/checkpoint"
)

// runFlags are the flags of run.
type runFlags struct {
	configFlags
	untilCaughtUp bool
	from          int64
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use: "run --config FILE", Short: "Replicate until SIGINT or SIGTERM, then cut a last checkpoint.", Args: cobra.NoArgs,
		Long: `Replicate until SIGINT or SIGTERM, then cut a last checkpoint and exit 0.
A second signal ends the process at once; the next start recovers, and nothing is lost.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("from") && f.from < 1 {
				return usage(fmt.Errorf("--from %d: checkpoints are numbered from 1; see replicator checkpoints list", f.from))
			}
			c, err := a.load(&f.configFlags)
			if err != nil {
				return err
			}
			return a.run(cmd.Context(), &c, &f)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.untilCaughtUp, "until-caught-up", false, "stop, after a last checkpoint, when every partition has reached the end that it had at start")
	cmd.Flags().Int64Var(&f.from, "from", 0, "start from the saved checkpoint `ID` instead of the latest")
	return cmd
}

func (a *app) run(ctx context.Context, c *config, f *runFlags) (err error) {
	var bar *progressBar
	logTo := a.stderr
	if f.untilCaughtUp && isTerminal(a.stderr) {
		bar = &progressBar{out: a.stderr}
		logTo = bar
		defer bar.clear()
	}
	log := c.logger(logTo)
	log.Info("starting", "pipeline", c.Pipeline, "version", version, "delivery", string(c.Delivery), "target", redact(c.Target.URL))
	if c.HTTP.Listen != "" {
		log.Info("the status page at http.listen is not yet served by this version", "listen", c.HTTP.Listen)
	}
	e, err := openEnds(ctx, c, log)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Canceled) {
			return nil // stopped before anything began: there is nothing to cut
		}
		return inPipeline(c, err)
	}
	defer func() {
		if cerr := e.close(); err == nil && cerr != nil {
			err = inPipeline(c, cerr)
		}
	}()
	p := pipelineConfig(c, e, log)
	p.UntilCaughtUp, p.From = f.untilCaughtUp, f.from
	if bar != nil {
		p.Progress = bar.show
	}
	var last checkpoint.Progress
	show := p.Progress
	p.Progress = func(now checkpoint.Progress) {
		last = now
		if show != nil {
			show(now)
		}
	}
	if err := checkpoint.Run(ctx, p); err != nil {
		return inPipeline(c, err)
	}
	log.Info("stopped", "pipeline", c.Pipeline, "checkpoint", last.Checkpoint, "events", last.Events, "repeated", last.Repeated, "skipped", last.Skipped)
	return nil
}

// inPipeline says whose error it is.
func inPipeline(c *config, err error) error { return fmt.Errorf("pipeline %s: %w", c.Pipeline, err) }
