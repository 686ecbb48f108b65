package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) cutoverCommand() *cobra.Command {
	var f verifyFlags
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "cutover --config FILE", Short: "The last mile of a migration: catch up, verify, add what is missing, and say go or no-go.", Args: cobra.NoArgs,
		Long: `Run it when writes to the source have stopped, and before the application writes to the target. The pipeline goes on running.
It asks the pipeline for a savepoint, waits until the pipeline has caught up, compares all rows, makes the source's indexes and
foreign keys that the target lacks, sets sequences past the highest values, gathers statistics, looks whether the source was left
alone meanwhile, and says go or no-go with its reasons. It may be repeated: what is there already is not made again. The exit code is 0 for go, 4 if rows differ, and 3 for
any other no-go.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return usage(err)
			}
			if len(f.tables) > 0 {
				return usage(errors.New("--tables: a cutover is of all tables"))
			}
			c, err := a.load(&f.configFlags)
			if err != nil {
				return err
			}
			return a.cutover(cmd.Context(), &c, &f, wait)
		},
	}
	f.add(cmd)
	cmd.Flags().DurationVar(&wait, "wait", 10*time.Minute, "how long to wait until the pipeline has caught up")
	a.jsonFlag(cmd)
	return cmd
}

// verdict is what cutover prints.
type verdict struct {
	Go        bool          `json:"go"`
	Savepoint int64         `json:"savepoint,omitempty"` // the way back: run --from
	Findings  []finding     `json:"findings"`
	Verify    *verification `json:"verify,omitempty"`
}

func (a *app) cutover(ctx context.Context, c *config, f *verifyFlags, wait time.Duration) (err error) {
	if !isPostgres(c.Target.URL) {
		return usage(errors.New("cutover serves targets of PostgreSQL"))
	}
	s, err := openSides(ctx, c, f.parallel)
	if err != nil {
		return inPipeline(c, err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	cut := &cutting{app: a, config: c, flags: f, wait: wait, sides: s}
	if err := cut.run(ctx); err != nil {
		return inPipeline(c, err)
	}
	d := verdict{Go: cut.found.count(levelError) == 0, Savepoint: cut.savepoint, Findings: cut.found.list, Verify: cut.verified}
	for i := range d.Findings {
		d.Findings[i].Message = redact(d.Findings[i].Message)
	}
	if a.json {
		err = a.printJSON(d)
	} else {
		err = a.printVerdict(&d)
	}
	switch {
	case err != nil || d.Go:
		return err
	case d.Verify != nil && !d.Verify.Equal:
		return &codedError{exitDifferences, fmt.Errorf("pipeline %s: no-go: source and target differ", c.Pipeline)}
	}
	return &codedError{exitPreflight, fmt.Errorf("pipeline %s: no-go", c.Pipeline)}
}

func (a *app) printVerdict(d *verdict) error {
	if d.Verify != nil && !d.Verify.Equal {
		if err := a.printVerification(d.Verify); err != nil {
			return err
		}
	}
	if err := a.printFindings(d.Findings); err != nil {
		return err
	}
	word := "no-go"
	if d.Go {
		word = "go"
	}
	_, err := fmt.Fprintln(a.stdout, word)
	return err
}
