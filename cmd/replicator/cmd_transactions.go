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
	"replicator/txnsink/postgres"
)

func (a *app) transactionsCommand() *cobra.Command {
	return group("transactions", "Look at the pipeline's prepared transactions on the target, and decide them.",
		a.transactionsList(), a.transactionsDecide(recoveryCommit), a.transactionsDecide(recoveryRollback))
}

func (a *app) transactionsList() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "list --config FILE", Short: "List prepared transactions: age, checkpoint, what recovery would do, and why.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withStore(cmd.Context(), &f, a.listTransactions)
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}

// transactionsDecide is the command for one of the two decisions.
func (a *app) transactionsDecide(decision string) *cobra.Command {
	var f configFlags
	var force bool
	short := "Commit a prepared transaction, as recovery would."
	if decision == recoveryRollback {
		short = "Roll a prepared transaction back, as recovery would."
	}
	cmd := &cobra.Command{
		Use: decision + " ID --config FILE", Short: short, Args: cobra.ExactArgs(1),
		Long: short + `
The next start of the pipeline does so by itself. Against what recovery would do, or while the transaction's own run may still
save its checkpoint, it needs --force: rows are then lost or applied twice.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, ok := postgres.ParseID("replicator:" + args[0])
			if !ok {
				return usage(fmt.Errorf("%q is no transaction's ID; see replicator transactions list", args[0]))
			}
			return a.withStore(cmd.Context(), &f, func(ctx context.Context, c *config, s checkpoint.Store) error {
				return a.decideTransaction(ctx, c, s, id, decision, force)
			})
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "decide against what recovery would do")
	return cmd
}

// The decisions on a prepared transaction.
const (
	recoveryCommit   = "commit"
	recoveryRollback = "rollback"
)

// transactionFacts is a prepared transaction as --json prints it.
type transactionFacts struct {
	txnsink.ID
	AgeSeconds float64 `json:"age_seconds"`
	Rows       *int64  `json:"rows"`     // of its checkpoint; null: that was not saved
	Recovery   string  `json:"recovery"` // commit or rollback
	Why        string  `json:"why"`
	Settled    bool    `json:"settled"` // nothing that is at work can change the decision
}

func (a *app) listTransactions(ctx context.Context, c *config, s checkpoint.Store) error {
	sink, err := openSink(ctx, c, c.logger(a.stderr))
	if err != nil {
		return err
	}
	facts, err := lookAtTransactions(ctx, c, sink, s)
	if err := errors.Join(err, sink.Close()); err != nil {
		return err
	}
	for _, t := range facts {
		if t.AgeSeconds > checkpoint.OldTransaction.Seconds() {
			fmt.Fprintf(a.stderr, "replicator: transaction %v has been prepared for %v: it holds locks and keeps vacuum from removing dead rows; start the pipeline, or decide it\n", t.ID, age(t))
		}
	}
	if a.json {
		return a.printJSON(facts)
	}
	return a.table("TRANSACTION\tEPOCH\tCHECKPOINT\tWORKER\tAGE\tROWS\tRECOVERY\tWHY", func(w *tabwriter.Writer) {
		for _, t := range facts {
			rows := "?"
			if t.Rows != nil {
				rows = fmt.Sprint(*t.Rows)
			}
			fmt.Fprintf(w, "%v\t%d\t%d\t%d\t%v\t%s\t%s\t%s\n", t.ID, t.Epoch, t.Checkpoint, t.Worker, age(t), rows, t.Recovery, t.Why)
		}
	})
}

func age(t transactionFacts) time.Duration {
	return time.Duration(t.AgeSeconds * float64(time.Second)).Round(time.Millisecond)
}

// lookAtTransactions lists the transactions first: a running pipeline's next checkpoint may decide them meanwhile, never undecide
// them.
func lookAtTransactions(ctx context.Context, c *config, sink txnsink.Sink, s checkpoint.Store) ([]transactionFacts, error) {
	pending, err := sink.Pending(ctx, c.Pipeline)
	if err != nil {
		return nil, err
	}
	list, err := s.List(ctx, c.Pipeline)
	if err != nil {
		return nil, err
	}
	return decisions(pending, list), nil
}

// decisions says of each transaction what recovery would do: a saved checkpoint is a decision to commit. All of them
// are looked at, because a running pipeline may have saved another one since the transactions were listed.
func decisions(pending []txnsink.Prepared, saved []checkpoint.Checkpoint) []transactionFacts {
	in := map[txnsink.ID]*checkpoint.Checkpoint{}
	var last checkpoint.Checkpoint
	for i := range saved {
		last = saved[i]
		for _, id := range last.Txns {
			in[id] = &saved[i]
		}
	}
	facts := make([]transactionFacts, len(pending))
	for i, p := range pending {
		f := transactionFacts{ID: p.ID, AgeSeconds: p.AgeSeconds, Recovery: recoveryRollback, Settled: true}
		switch c := in[p.ID]; {
		case c != nil:
			f.Recovery, f.Rows = recoveryCommit, &c.Rows
			f.Why = fmt.Sprintf("checkpoint %d was saved and lists it", c.ID)
		case p.ID.Epoch >= last.Epoch && p.ID.Checkpoint > last.ID:
			f.Settled = false
			f.Why = fmt.Sprintf("checkpoint %d is not saved; if its run is at work, it may still save it", p.ID.Checkpoint)
		default:
			f.Why = fmt.Sprintf("no saved checkpoint lists it, and the last one is %d of epoch %d", last.ID, last.Epoch)
		}
		facts[i] = f
	}
	return facts
}

// decision is what --json prints.
type decision struct {
	txnsink.ID
	Decision string `json:"decision"`
	Forced   bool   `json:"forced"`
}

func (a *app) decideTransaction(ctx context.Context, c *config, s checkpoint.Store, id txnsink.ID, how string, force bool) error {
	sink, err := openSink(ctx, c, c.logger(a.stderr))
	if err != nil {
		return err
	}
	forced, err := decideOne(ctx, c, sink, s, id, how, force)
	if err := errors.Join(err, sink.Close()); err != nil {
		return err
	}
	if a.json {
		return a.printJSON(decision{id, how, forced})
	}
	_, err = fmt.Fprintf(a.stdout, "%s of transaction %v is done\n", how, id)
	return err
}

func decideOne(ctx context.Context, c *config, sink txnsink.Sink, s checkpoint.Store, id txnsink.ID, how string, force bool) (forced bool, err error) {
	facts, err := lookAtTransactions(ctx, c, sink, s)
	if err != nil {
		return false, err
	}
	var found *transactionFacts
	for i := range facts {
		if facts[i].ID == id {
			found = &facts[i]
		}
	}
	if found == nil {
		return false, fmt.Errorf("transaction %v of pipeline %s is not prepared; see replicator transactions list", id, c.Pipeline)
	}
	forced = found.Recovery != how || !found.Settled
	if forced && !force {
		return false, fmt.Errorf("recovery would %s transaction %v, because %s: start the pipeline to let it decide, or add --force", found.Recovery, id, found.Why)
	}
	if how == recoveryCommit {
		return forced, sink.Commit(ctx, id)
	}
	return forced, sink.Abort(ctx, id)
}
