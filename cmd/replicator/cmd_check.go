package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

// checkTimeout bounds the preflight as a whole: a broker or a database that does not answer is a finding.
const checkTimeout = 60 * time.Second

// The levels of a finding.
const (
	levelOK      = "ok"
	levelWarning = "warning"
	levelError   = "error"
)

// finding is one line of the preflight. Check and Finding are words for scripts; docs/check.md has a line for each pair of them.
type finding struct {
	Level   string `json:"level"`             // ok, warning or error
	Check   string `json:"check"`             // what was looked at
	Finding string `json:"finding,omitempty"` // what is the matter; nothing is if it is ok
	Message string `json:"message"`
	Do      string `json:"do,omitempty"` // what to do about it
}

// name is the finding's line in docs/check.md.
func (f *finding) name() string {
	if f.Finding == "" {
		return f.Check
	}
	return f.Check + "/" + f.Finding
}

// findings collects what the checks find.
type findings struct{ list []finding }

func (f *findings) ok(check, format string, args ...any) {
	f.list = append(f.list, finding{Level: levelOK, Check: check, Message: fmt.Sprintf(format, args...)})
}

// warn and fail take the check and the finding with a slash between them, as docs/check.md has them.
func (f *findings) warn(name, do, format string, args ...any) {
	f.add(levelWarning, name, do, fmt.Sprintf(format, args...))
}

func (f *findings) fail(name, do, format string, args ...any) {
	f.add(levelError, name, do, fmt.Sprintf(format, args...))
}

func (f *findings) add(level, name, do, message string) {
	check, what, _ := strings.Cut(name, "/")
	f.list = append(f.list, finding{level, check, what, message, do})
}

func (f *findings) count(level string) int {
	n := 0
	for _, x := range f.list {
		if x.Level == level {
			n++
		}
	}
	return n
}

func (a *app) checkCommand() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "check --config FILE", Short: "Preflight: brokers, topics, target, store; what will go wrong, and what to do.", Args: cobra.NoArgs,
		Long: `Look at brokers, topics and a few of their records, the target's settings, grants and tables, and the checkpoint store, and change
nothing. One line a finding: ok, warning or error, and what to do; docs/check.md has more on each. The exit code is 3 if there is an
error.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(&f)
			if err != nil {
				return err
			}
			return a.check(cmd.Context(), &c)
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) check(ctx context.Context, c *config) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var found findings
	source := checkSource(ctx, c, lastCheckpoint(ctx, c), &found)
	tables := source.tables
	checkTables(c, tables, &found)
	checkTarget(ctx, c, tables, source.maxMessage(), &found)
	checkStore(ctx, c, &found)
	for i := range found.list {
		found.list[i].Message = redact(found.list[i].Message)
	}
	var err error
	if a.json {
		err = a.printJSON(found.list)
	} else {
		err = a.printFindings(found.list)
	}
	if err != nil {
		return err
	}
	if n := found.count(levelError); n > 0 {
		return &codedError{exitPreflight, fmt.Errorf("pipeline %s: the preflight found %d errors", c.Pipeline, n)}
	}
	return nil
}

func (a *app) printFindings(list []finding) error {
	w := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, f := range list {
		line := f.Message
		if f.Do != "" {
			line += ": " + f.Do
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Level, f.name(), line)
	}
	return w.Flush()
}

// within returns ctx with a part of the time, so that one silent server leaves some for the other checks.
func within(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

// reason is err on one line.
func reason(err error) string {
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		text := ""
		for i, e := range joined.Unwrap() {
			if i > 0 {
				text += "; "
			}
			text += e.Error()
		}
		return text
	}
	return err.Error()
}

// unlessSaid is the advice do, or nothing if err says itself what to look at, as errors of connections do when they know.
func unlessSaid(err error, do string) string {
	if saysWhatToDo.MatchString(reason(err)) {
		return ""
	}
	return do
}

var saysWhatToDo = regexp.MustCompile(`\?$|\bsee (to|whether) |\bset source\.`)

// few returns at most n of the names, for a message.
func few(names []string, n int) string {
	slices.Sort(names)
	more := ""
	if len(names) > n {
		more = fmt.Sprintf(" and %d more", len(names)-n)
		names = names[:n]
	}
	text := ""
	for i, s := range names {
		if i > 0 {
			text += ", "
		}
		text += s
	}
	return text + more
}
