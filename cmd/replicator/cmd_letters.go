package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/txnsink"
)

// letterSink is a target that keeps the records that were set aside.
type letterSink interface {
	Letters(ctx context.Context, pipeline string, do func(*txnsink.Letter) error) error
	Letter(ctx context.Context, pipeline, topic string, partition int32, offset int64) (*txnsink.Letter, error)
	DecideLetters(ctx context.Context, pipeline, action string, pick []txnsink.Letter) (int64, error)
	Close() error
}

func (a *app) lettersCommand() *cobra.Command {
	return group("dead-letters", "Look at the records that were set aside (errors.bad_record: dead-letter), and decide them.",
		a.lettersList(), a.lettersShow(), a.lettersDecide(checkpoint.RetryLetter), a.lettersDecide(checkpoint.DropLetter))
}

func (a *app) lettersList() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "list --config FILE", Short: "List the records that were set aside: where from, of which row, and why.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withSink(cmd.Context(), &f, a.listLetters)
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}

func (a *app) lettersShow() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "show ID --config FILE", Short: "Show one record that was set aside, with its bytes.", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := letterID(args[0])
			if err != nil {
				return err
			}
			return a.withSink(cmd.Context(), &f, func(ctx context.Context, c *config, sink letterSink) error {
				return a.showLetter(ctx, c, sink, id)
			})
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}

// lettersDecide is the command for one of the two decisions.
func (a *app) lettersDecide(action string) *cobra.Command {
	var f configFlags
	var all bool
	short := "Have records that were set aside applied, after the cause was removed."
	if action == checkpoint.DropLetter {
		short = "Have records that were set aside forgotten, for good."
	}
	cmd := &cobra.Command{
		Use: action + " ID... | --all --config FILE", Short: short,
		Long: short + `
The pipeline does it, within a few seconds if it runs, or else when it starts. Whichever of a row's records is decided, the row's
others are retried, in their order, and its later ones follow no more. One that fails again is set aside again.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 0) {
				return usage(fmt.Errorf("name records by the IDs that replicator dead-letters list shows, or all of them by --all"))
			}
			var pick []txnsink.Letter
			for _, arg := range args {
				id, err := letterID(arg)
				if err != nil {
					return err
				}
				pick = append(pick, id)
			}
			return a.withSink(cmd.Context(), &f, func(ctx context.Context, c *config, sink letterSink) error {
				return a.decideLetters(ctx, c, sink, action, pick)
			})
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all records of the pipeline that were set aside")
	return cmd
}

// withSink lends do the target.
func (a *app) withSink(ctx context.Context, f *configFlags, do func(context.Context, *config, letterSink) error) error {
	c, err := a.load(f)
	if err != nil {
		return err
	}
	opened, err := openSink(ctx, &c, c.logger(a.stderr))
	if err != nil {
		return inPipeline(&c, err)
	}
	sink, ok := opened.(letterSink)
	if !ok {
		return inPipeline(&c, errors.Join(fmt.Errorf("a %T keeps no records that were set aside", opened), opened.Close()))
	}
	if err := errors.Join(do(ctx, &c, sink), sink.Close()); err != nil {
		return inPipeline(&c, err)
	}
	return nil
}

// letterID reads TOPIC/PARTITION/OFFSET: a topic's name has no slash.
func letterID(s string) (txnsink.Letter, error) {
	parts := strings.Split(s, "/")
	if len(parts) == 3 && parts[0] != "" {
		partition, perr := strconv.ParseInt(parts[1], 10, 32)
		offset, oerr := strconv.ParseInt(parts[2], 10, 64)
		if perr == nil && oerr == nil {
			return txnsink.Letter{Topic: parts[0], Partition: int32(partition), Offset: offset}, nil
		}
	}
	return txnsink.Letter{}, usage(fmt.Errorf("%q is no record's ID, which is TOPIC/PARTITION/OFFSET; see replicator dead-letters list", s))
}

// letterFacts is a record that was set aside, as --json prints it.
type letterFacts struct {
	ID       string    `json:"id"`
	Table    string    `json:"table"`
	Row      string    `json:"row"`
	Class    string    `json:"class"`
	Cause    string    `json:"cause"`
	Created  time.Time `json:"created"`
	Decision string    `json:"decision,omitempty"`
}

func factsOfLetter(l *txnsink.Letter) letterFacts {
	return letterFacts{
		ID:    fmt.Sprintf("%s/%d/%d", l.Topic, l.Partition, l.Offset),
		Table: l.Source, Row: l.RowKey, Class: l.Class, Cause: l.Cause, Created: l.Created.UTC(), Decision: l.Action,
	}
}

func (a *app) listLetters(ctx context.Context, c *config, sink letterSink) error {
	facts := []letterFacts{}
	err := sink.Letters(ctx, c.Pipeline, func(l *txnsink.Letter) error {
		facts = append(facts, factsOfLetter(l))
		return nil
	})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(facts)
	}
	return a.table("ID\tTABLE\tROW\tSET ASIDE\tDECISION\tCLASS\tCAUSE", func(w *tabwriter.Writer) {
		for _, l := range facts {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.ID, l.Table, l.Row, l.Created.Format(time.RFC3339), l.Decision, l.Class, l.Cause)
		}
	})
}

// letterWhole is what show prints beside the facts. Bytes are base64 in JSON, null is Kafka's null.
type letterWhole struct {
	letterFacts
	Time    time.Time         `json:"record_time"`
	Headers []debezium.Header `json:"headers"`
	Key     []byte            `json:"key"`
	Value   []byte            `json:"value"`
}

func (a *app) showLetter(ctx context.Context, c *config, sink letterSink, id txnsink.Letter) error {
	l, err := sink.Letter(ctx, c.Pipeline, id.Topic, id.Partition, id.Offset)
	if err != nil {
		return err
	}
	if l == nil {
		return fmt.Errorf("%s/%d/%d is not set aside; see replicator dead-letters list", id.Topic, id.Partition, id.Offset)
	}
	whole := letterWhole{letterFacts: factsOfLetter(l), Time: l.Time.UTC(), Key: l.Key, Value: l.Value}
	if err := json.Unmarshal([]byte(l.Headers), &whole.Headers); err != nil {
		return fmt.Errorf("the headers of %s, as they were set aside: %w", whole.ID, err)
	}
	if a.json {
		return a.printJSON(whole)
	}
	fmt.Fprintf(a.stdout, "record     %s\ntable      %s\nrow        %s\nset aside  %s\nclass      %s\ncause      %s\n",
		whole.ID, whole.Table, whole.Row, whole.Created.Format(time.RFC3339), whole.Class, whole.Cause)
	if whole.Decision != "" {
		fmt.Fprintf(a.stdout, "decision   %s\n", whole.Decision)
	}
	fmt.Fprintf(a.stdout, "time       %s\n", whole.Time.Format(time.RFC3339Nano))
	for _, h := range whole.Headers {
		fmt.Fprintf(a.stdout, "header     %s: %s\n", h.Key, shown(h.Value))
	}
	_, err = fmt.Fprintf(a.stdout, "key        %s\nvalue      %s\n", shown(whole.Key), shown(whole.Value))
	return err
}

// shown is a record's bytes for people: text as it is, and what a terminal might take for commands as hexadecimal digits.
func shown(b []byte) string {
	control := func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }
	switch {
	case b == nil:
		return "null"
	case utf8.Valid(b) && !strings.ContainsFunc(string(b), control):
		return string(b)
	}
	return fmt.Sprintf("0x%x", b)
}

// lettersDecided is what --json prints.
type lettersDecided struct {
	Decision string `json:"decision"`
	Records  int64  `json:"records"`
}

func (a *app) decideLetters(ctx context.Context, c *config, sink letterSink, action string, pick []txnsink.Letter) error {
	n, err := sink.DecideLetters(ctx, c.Pipeline, action, pick)
	if err != nil {
		return err
	}
	if n < int64(len(pick)) {
		return fmt.Errorf("%d of the %d records are not set aside (the others are decided); see replicator dead-letters list", int64(len(pick))-n, len(pick))
	}
	if a.json {
		return a.printJSON(lettersDecided{action, n})
	}
	_, err = fmt.Fprintf(a.stdout, "decided to %s %d records: the pipeline does so within a few seconds, or when it starts; see replicator dead-letters list\n", action, n)
	return err
}
