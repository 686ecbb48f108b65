package main

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"replicator/checkpoint"
	"replicator/txnsink"
)

func (a *app) transactionsCommand() *cobra.Command {
	return group("transactions", "Look at the pipeline's prepared transactions on the target.", a.transactionsList())
}

func (a *app) transactionsList() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "list --config FILE", Short: "List prepared transactions: age, checkpoint, and what recovery would do.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), &f, a.listTransactions)
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}

// transactionFacts is a prepared transaction as --json prints it.
type transactionFacts struct {
	txnsink.ID
	AgeSeconds float64 `json:"age_seconds"`
	Recovery   string  `json:"recovery"` // commit or rollback
}

func (a *app) listTransactions(ctx context.Context, c *config, s checkpoint.Store) error {
	sink, err := openSink(ctx, c, c.logger(a.stderr))
	if err != nil {
		return err
	}
	// The transactions first: a running pipeline's next checkpoint may decide them meanwhile, never undecide them.
	pending, err := sink.Pending(ctx, c.Pipeline)
	if err := errors.Join(err, sink.Close()); err != nil {
		return err
	}
	list, err := s.List(ctx, c.Pipeline)
	if err != nil {
		return err
	}
	facts := decisions(pending, list)
	if a.json {
		return a.printJSON(facts)
	}
	return a.table("TRANSACTION\tEPOCH\tCHECKPOINT\tWORKER\tAGE\tRECOVERY", func(w *tabwriter.Writer) {
		for _, t := range facts {
			age := time.Duration(t.AgeSeconds * float64(time.Second)).Round(time.Millisecond)
			fmt.Fprintf(w, "%v\t%d\t%d\t%d\t%v\t%s\n", t.ID, t.Epoch, t.Checkpoint, t.Worker, age, t.Recovery)
		}
	})
}

// decisions says of each transaction what recovery would do: a saved checkpoint is a decision to commit. All of them
// are looked at, because a running pipeline may have saved another one since the transactions were listed.
func decisions(pending []txnsink.Prepared, saved []checkpoint.Checkpoint) []transactionFacts {
	commit := map[txnsink.ID]bool{}
	for _, c := range saved {
		for _, id := range c.Txns {
			commit[id] = true
		}
	}
	facts := make([]transactionFacts, len(pending))
	for i, p := range pending {
		facts[i] = transactionFacts{p.ID, p.AgeSeconds, "rollback"}
		if commit[p.ID] {
			facts[i].Recovery = "commit"
		}
	}
	return facts
}
