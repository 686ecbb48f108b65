package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"replicator/verify"
)

// verifyFlags are what bounds a comparison.
type verifyFlags struct {
	configFlags
	tables                       []string
	chunk, parallel, rate, limit int
	lag                          time.Duration
}

func (f *verifyFlags) add(cmd *cobra.Command) {
	f.configFlags.add(cmd)
	cmd.Flags().StringArrayVar(&f.tables, "tables", nil, "compare only tables whose database.table matches `REGEXP` as a whole; may be repeated")
	cmd.Flags().IntVar(&f.chunk, "rows-per-query", 10_000, "rows that one statement reads, where the key allows it")
	cmd.Flags().IntVar(&f.parallel, "parallel", 2, "statements at a time on each side, 1 to 64")
	cmd.Flags().IntVar(&f.rate, "rate", 0, "rows per second at most; 0: no bound")
	cmd.Flags().IntVar(&f.limit, "limit", 1000, "differences of one table after which it is left")
	cmd.Flags().DurationVar(&f.lag, "lag", 10*time.Second, "the time between two looks at a row that differs: more than a change needs to reach the target")
}

func (f *verifyFlags) check() error {
	if f.chunk < 1 || f.parallel < 1 || f.parallel > 64 || f.rate < 0 || f.limit < 1 || f.lag <= 0 {
		return errors.New("--rows-per-query, --parallel, --limit and --lag must be positive, --parallel at most 64, and --rate not negative")
	}
	for _, t := range f.tables {
		if _, err := regexp.Compile(t); err != nil {
			return fmt.Errorf("--tables %s: %w", t, err)
		}
	}
	return nil
}

// wants says whether --tables asks for a table.
func (f *verifyFlags) wants(name string) bool {
	for _, t := range f.tables {
		if regexp.MustCompile("^(?:" + t + ")$").MatchString(name) { // check has compiled it
			return true
		}
	}
	return len(f.tables) == 0
}

func (a *app) verifyCommand() *cobra.Command {
	var f verifyFlags
	cmd := &cobra.Command{
		Use: "verify --config FILE", Short: "Compare the rows of source and target, and report differences by key and column.", Args: cobra.NoArgs,
		Long: `Compare the rows of the source (verify.source) with the target's, table by table, and report differences by key and column.
Both databases add up hashes of their rows by ranges of keys, and only ranges that differ are looked into. The pipeline may run: a
row is reported if it differs in two looks that are --lag apart, and the source has not changed it in between.
The exit code is 4 if there are differences.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return usage(err)
			}
			c, err := a.load(&f.configFlags)
			if err != nil {
				return err
			}
			return a.verify(cmd.Context(), &c, &f)
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}

// verification is what verify prints.
type verification struct {
	Equal   bool                 `json:"equal"`
	Rows    int64                `json:"rows"`
	Seconds float64              `json:"seconds"`
	Tables  []verify.TableReport `json:"tables"`
}

func (a *app) verify(ctx context.Context, c *config, f *verifyFlags) (err error) {
	s, err := openSides(ctx, c, f.parallel)
	if err != nil {
		return inPipeline(c, err)
	}
	defer func() { err = errors.Join(err, s.close()) }()
	r, err := a.pairs(ctx, c, s, f.wants)
	if err != nil {
		return inPipeline(c, err)
	}
	v, err := a.compare(ctx, s, r.pairs, f)
	if err != nil {
		return inPipeline(c, err)
	}
	if a.json {
		err = a.printJSON(v)
	} else {
		err = a.printVerification(&v)
	}
	if err == nil && !v.Equal {
		err = &codedError{exitDifferences, fmt.Errorf("pipeline %s: source and target differ", c.Pipeline)}
	}
	return err
}

// compare compares, with a bar on a terminal.
func (a *app) compare(ctx context.Context, s *sides, pairs []verify.Pair, f *verifyFlags) (verification, error) {
	vc := verify.Config{
		Source: s.source, Target: s.target, Postgres: s.postgres, Names: s.names, Pairs: pairs,
		Chunk: f.chunk, Parallel: f.parallel, Rate: f.rate, Limit: f.limit, Lag: f.lag,
	}
	if isTerminal(a.stderr) {
		bar := &progressBar{out: a.stderr}
		defer bar.clear()
		vc.Progress = func(p verify.Progress) { bar.draw(false, func(time.Duration) string { return verifyText(p) }) }
	}
	begun := time.Now()
	tables, err := verify.Compare(ctx, vc)
	v := verification{Equal: true, Seconds: time.Since(begun).Seconds(), Tables: tables}
	for i := range tables {
		v.Rows += tables[i].Rows
		v.Equal = v.Equal && tables[i].Equal()
	}
	return v, err
}

// verifyText is the bar's line.
func verifyText(p verify.Progress) string {
	done := 1.0
	if p.Total > 0 {
		done = min(1, float64(p.Rows)/float64(p.Total))
	}
	text := fmt.Sprintf("%s  %d rows, %.0f/s", barOf(done), p.Rows, p.Rate())
	if left := p.Left(); left > 0 {
		text += ", about " + left.Round(time.Second).String() + " left"
	}
	if p.Suspects > 0 {
		text += fmt.Sprintf(", %d to look at again", p.Suspects)
	}
	return text + ", " + p.Table
}

func (a *app) printVerification(v *verification) error {
	var b strings.Builder
	for i := range v.Tables {
		describeTable(&b, &v.Tables[i])
	}
	fmt.Fprintf(&b, "%d rows of %d tables in %.1f s\n", v.Rows, len(v.Tables), v.Seconds)
	_, err := fmt.Fprint(a.stdout, b.String())
	return err
}

func describeTable(b *strings.Builder, t *verify.TableReport) {
	fmt.Fprintf(b, "%s -> %s: %d rows", t.Table, t.Target, t.Rows)
	switch {
	case t.Problem != "":
		fmt.Fprintf(b, ", not compared: %s\n", t.Problem)
		return
	case t.Equal():
		fmt.Fprintln(b, ", equal")
		return
	case t.More:
		fmt.Fprintf(b, ", the first %d differences\n", len(t.Differences))
	default:
		fmt.Fprintf(b, ", %d differences\n", len(t.Differences))
	}
	for _, d := range t.Differences {
		fmt.Fprintf(b, "  %s %s", d.Kind, describeKey(t.Key, d.Key))
		if d.Count > 1 {
			fmt.Fprintf(b, " (%d rows)", d.Count)
		}
		if len(d.Columns) > 0 {
			fmt.Fprintf(b, ": %s", strings.Join(d.Columns, ", "))
		}
		fmt.Fprintln(b)
	}
	if t.Unsettled > 0 {
		fmt.Fprintf(b, "  %d more rows differed and changed at the source between all looks: compare again when it is quieter\n", t.Unsettled)
	}
}

// describeKey is a key with the names of its columns; without a key, the row's hash.
func describeKey(names, values []string) string {
	if len(names) == 0 {
		return "row " + strings.Join(values, "")
	}
	parts := make([]string, len(names))
	for i := range names {
		parts[i] = fmt.Sprintf("%s=%q", names[i], values[i])
	}
	return strings.Join(parts, " ")
}
