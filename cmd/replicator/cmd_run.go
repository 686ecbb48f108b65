package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"replicator/checkpoint"
	"replicator/cmd/replicator/ops"
)

// runFlags are the flags of run.
type runFlags struct {
	configFlags
	untilCaughtUp bool
	from          int64
	replay        bool
	until         string
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
			if f.replay && f.from == 0 {
				return usage(errors.New("--replay allows what --from asks for: name a checkpoint by --from"))
			}
			c, err := a.load(&f.configFlags)
			if err != nil {
				return err
			}
			if err := c.mayShareRun(&f); err != nil {
				return err
			}
			return a.run(cmd.Context(), &c, &f)
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&f.untilCaughtUp, "until-caught-up", false, "stop, after a last checkpoint, when every partition has reached the end that it had at start")
	cmd.Flags().Int64Var(&f.from, "from", 0, "start from the saved checkpoint `ID` instead of the latest")
	cmd.Flags().BoolVar(&f.replay, "replay", false, "with --from: apply again what the target holds already; the rows have keys and converge, or the tables were emptied")
	cmd.Flags().StringVar(&f.until, "until", "", "stop where the saved `CHECKPOINT` was cut, or before the first event that the source committed after a TIME as in 2026-01-31T00:00:00Z")
	return cmd
}

// readUntil reads --until: a checkpoint's number or a time.
func readUntil(ctx context.Context, c *config, s checkpoint.Store, p *checkpoint.Config, text string) error {
	if text == "" {
		return nil
	}
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		if p.UntilTime, err = time.Parse(time.RFC3339, text); err != nil {
			return usage(fmt.Errorf("--until %s: must be the number of a checkpoint, or a time as in 2026-01-31T00:00:00Z", text))
		}
		return nil
	}
	until, err := s.Load(ctx, c.Pipeline, id)
	if err != nil {
		return fmt.Errorf("--until %s: %w; see replicator checkpoints list", text, err)
	}
	p.Until = until.Positions
	return nil
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
	port, closePort, err := openPort(ctx, c, log)
	if err != nil {
		return inPipeline(c, err)
	}
	defer func() {
		if cerr := closePort(); err == nil && cerr != nil {
			err = inPipeline(c, cerr)
		}
	}()
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
	p.UntilCaughtUp, p.From, p.Replay = f.untilCaughtUp, f.from, f.replay
	if err := readUntil(ctx, c, e.store, &p, f.until); err != nil {
		return inPipeline(c, err)
	}
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
	port.Attach(&p, redact)
	defer a.manager(log).attach(ctx, &p)()
	if err := runPipeline(ctx, c, e, &p, log); err != nil {
		port.Ended(err, redact(err.Error()))
		return inPipeline(c, err)
	}
	port.Ended(nil, "")
	log.Info("stopped", "pipeline", c.Pipeline, "checkpoint", last.Checkpoint, "events", last.Events, "repeated", last.Repeated, "skipped", last.Skipped, "aside", last.Aside)
	return nil
}

// runPipeline runs the pipeline by itself, or takes part in running it.
func runPipeline(ctx context.Context, c *config, e *ends, p *checkpoint.Config, log *slog.Logger) error {
	if !c.Cluster && !c.Standby {
		return checkpoint.Run(ctx, *p)
	}
	cluster, err := clusterOf(ctx, c, e, p, log)
	if err != nil {
		return err
	}
	return checkpoint.RunCluster(ctx, cluster)
}

// openPort serves http.listen until the function that it returns is called.
func openPort(ctx context.Context, c *config, log *slog.Logger) (*ops.Server, func() error, error) {
	build := readVersion()
	port := ops.New(ops.Config{
		Pipeline: c.Pipeline, Version: build.Version, Commit: build.Commit, Delivery: string(c.Delivery), Workers: c.Workers,
		Source: strings.Join(c.Source.Brokers, ", "), Target: mask(c.Target.URL), Settings: c.Settings,
		Token: c.HTTP.Token, Pprof: c.HTTP.Pprof, Interval: c.Checkpoint.Interval, Preserve: c.Transactions == preserveTransactions, Cluster: c.Cluster, Log: log,
	})
	if c.HTTP.Listen == "" {
		return port, func() error { return nil }, nil
	}
	l, err := net.Listen("tcp", c.HTTP.Listen)
	if err != nil {
		return nil, nil, fmt.Errorf("http.listen: %w: give each pipeline of this machine a port of its own, or set it to ''", err)
	}
	log.Info("serving", "pipeline", c.Pipeline, "http", "http://"+l.Addr().String()+"/")
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // while a last checkpoint is cut, too
	ended := make(chan error, 1)
	go func() { ended <- port.Serve(ctx, l) }()
	return port, func() error { cancel(); return <-ended }, nil
}

// inPipeline says whose error it is.
func inPipeline(c *config, err error) error { return fmt.Errorf("pipeline %s: %w", c.Pipeline, err) }
