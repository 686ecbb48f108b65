package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"replicator/checkpoint"
	"replicator/cmd/replicator/ops"
)

const (
	savepointTimeout = 90 * time.Second // longer than the pipeline lets a request wait
	maxAnswer        = 64 << 10
	maxImport        = 64 << 20 // a checkpoint's file
)

func (a *app) checkpointsSave() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "save --config FILE", Short: "Ask the running pipeline, at http.listen, for a savepoint: a checkpoint that pruning keeps.", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.load(&f)
			if err != nil {
				return err
			}
			made, err := askForSavepoint(cmd.Context(), &c)
			if err != nil {
				return inPipeline(&c, err)
			}
			if a.json {
				return a.printJSON(made)
			}
			_, err = fmt.Fprintf(a.stdout, "checkpoint %d is a savepoint\n", made.Checkpoint)
			return err
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	return cmd
}

// askForSavepoint asks the pipeline that runs on this machine.
func askForSavepoint(ctx context.Context, c *config) (ops.Savepoint, error) {
	if c.HTTP.Token == "" {
		return ops.Savepoint{}, errors.New("savepoint: http.token is not set: set it in the configuration of the running pipeline too")
	}
	base, err := listenURL(c.HTTP.Listen)
	if err != nil {
		return ops.Savepoint{}, fmt.Errorf("savepoint: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, savepointTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/api/savepoint", nil)
	if err != nil {
		return ops.Savepoint{}, err
	}
	r.Header.Set("Authorization", "Bearer "+c.HTTP.Token)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return ops.Savepoint{}, fmt.Errorf("savepoint: is the pipeline running? %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return ops.Savepoint{}, fmt.Errorf("savepoint: %w", err)
	}
	var reply struct {
		ops.Savepoint
		Error string `json:"error"`
	}
	err = json.Unmarshal(body, &reply)
	switch {
	case reply.Error != "":
		return ops.Savepoint{}, fmt.Errorf("savepoint: http.listen answers %s: %s", answer.Status, reply.Error)
	case err != nil || answer.StatusCode != http.StatusOK || reply.Checkpoint == 0:
		return ops.Savepoint{}, fmt.Errorf("savepoint: http.listen answers %s: is it the pipeline's?", answer.Status)
	}
	return reply.Savepoint, nil
}

func (a *app) checkpointsExport() *cobra.Command {
	var f configFlags
	cmd := &cobra.Command{
		Use: "export ID --config FILE", Short: "Print one checkpoint as JSON, for import.", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := checkpointID(args[0])
			if err != nil {
				return err
			}
			return a.withStore(cmd.Context(), &f, func(ctx context.Context, c *config, s checkpoint.Store) error {
				cp, err := s.Load(ctx, c.Pipeline, id)
				if err != nil {
					return fmt.Errorf("%w; see replicator checkpoints list", err)
				}
				b, err := checkpoint.Marshal(cp)
				if err != nil {
					return err
				}
				_, err = fmt.Fprintf(a.stdout, "%s\n", b)
				return err
			})
		},
	}
	f.add(cmd)
	return cmd
}

func (a *app) checkpointsImport() *cobra.Command {
	var f configFlags
	replay := false
	cmd := &cobra.Command{
		Use: "import FILE --config FILE", Short: "Begin a pipeline at an exported checkpoint; - is standard input.", Args: cobra.ExactArgs(1),
		Long: `Begin a pipeline at a checkpoint that export printed; - is standard input.
The pipeline must have no checkpoint yet: give it another name, by --set pipeline=NAME. To replay without touching what the
first one writes, let it write elsewhere: --set target.table='replay.{table}'. The tables must hold what the checkpoint says, or
be empty if only what came after is wanted: those that the first pipeline has written beyond the checkpoint are refused.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			cp, err := readExported(cmd.InOrStdin(), args[0])
			if err != nil {
				return err
			}
			return a.withOwnTables(cmd.Context(), &f, func(ctx context.Context, c *config, s checkpoint.Store) error {
				if err := importCheckpoint(ctx, c, s, cp, replay); err != nil {
					return fmt.Errorf("import: %w", err)
				}
				_, err := fmt.Fprintf(a.stdout, "pipeline %s begins at checkpoint %d of pipeline %s\n", c.Pipeline, cp.ID, cp.Pipeline)
				return err
			})
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&replay, "replay", false, "apply again what the target's tables hold already; their rows have keys and converge, or they were emptied")
	return cmd
}

// mayImport refuses a checkpoint that the configuration cannot go on from: of other topics, or one that would repeat rows.
func mayImport(ctx context.Context, c *config, cp checkpoint.Checkpoint, replay bool) (err error) {
	topics := map[string]bool{}
	wanted := c.wantsTopic()
	for p := range cp.Positions {
		topics[p.Topic] = topics[p.Topic] || wanted(p.Topic)
	}
	if len(topics) > 0 && !slices.Contains(slices.Collect(maps.Values(topics)), true) {
		return usage(fmt.Errorf("source.topics matches none of the checkpoint's topics, which are %s: all that it does match would be read from the beginning",
			strings.Join(slices.Sorted(maps.Keys(topics)), ", ")))
	}
	if replay || c.Delivery == checkpoint.AtLeastOnce || c.Delivery == checkpoint.AtMostOnce {
		return nil
	}
	if err := needOwnTables(ctx, c, c.Target.URL); err != nil {
		return err
	}
	sink, err := openSink(ctx, c, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sink.Close()) }()
	tables, err := checkpoint.Overtaken(ctx, checkpoint.Config{Sink: sink, Tables: checkpoint.TablesConfig{Template: c.Target.Table, Rules: tableRules(c)}}, cp)
	if err != nil || len(tables) == 0 {
		return err
	}
	return fmt.Errorf("pipeline %s has written beyond checkpoint %d to table %s, and rows of tables without a key would be there twice: "+
		"let this pipeline write elsewhere, as in --set target.table='replay.{table}'; or if every table has a key, so that its rows converge, "+
		"or the tables were emptied, say so by --replay", cp.Pipeline, cp.ID, tables[0])
}

// readExported reads what export printed.
func readExported(stdin io.Reader, name string) (cp checkpoint.Checkpoint, err error) {
	in := stdin
	if name != "-" {
		f, openErr := os.Open(name)
		if openErr != nil {
			return cp, usage(fmt.Errorf("import: %w", openErr))
		}
		defer func() {
			if cerr := f.Close(); err == nil {
				err = cerr
			}
		}()
		in = f
	}
	b, err := io.ReadAll(io.LimitReader(in, maxImport+1))
	if err != nil {
		return cp, fmt.Errorf("import %s: %w", name, err)
	}
	if len(b) > maxImport {
		return cp, usage(fmt.Errorf("import %s: it has more than %d bytes: it is no exported checkpoint", name, maxImport))
	}
	if cp, err = checkpoint.Unmarshal(bytes.TrimSpace(b)); err != nil {
		return cp, usage(fmt.Errorf("import %s: %w", name, err))
	}
	if cp.ID < 1 {
		return cp, usage(fmt.Errorf("import %s: it holds no checkpoint", name))
	}
	return cp, nil
}

// importCheckpoint saves cp as the first checkpoint of the pipeline. What is said there of the other pipeline's target
// does not hold for this one's.
func importCheckpoint(ctx context.Context, c *config, s checkpoint.Store, cp checkpoint.Checkpoint, replay bool) error {
	list, err := s.List(ctx, c.Pipeline)
	if err != nil {
		return err
	}
	if len(list) > 0 {
		return fmt.Errorf("the pipeline has checkpoints already, up to %d: give it another name, as in --set pipeline=%s-replay", list[len(list)-1].ID, c.Pipeline)
	}
	if err := mayImport(ctx, c, cp, replay); err != nil {
		return err
	}
	begun, err := s.Acquire(ctx, c.Pipeline)
	if err != nil {
		return err
	}
	if begun.ID != 0 {
		return errors.New("the pipeline has begun meanwhile")
	}
	cp.Pipeline, cp.Epoch = c.Pipeline, begun.Epoch
	cp.Txns, cp.Parts, cp.Ahead = nil, nil, nil
	cp.Savepoint, cp.Rows, cp.Created = true, 0, time.Now().UTC()
	return s.Save(ctx, cp, c.Checkpoint.Retain)
}

func (a *app) checkpointsPrune() *cobra.Command {
	var f configFlags
	keep := 0
	cmd := &cobra.Command{
		Use: "prune [ID...] --config FILE", Short: "Remove checkpoints: those named, savepoints too, or all but the last --keep that are no savepoints.",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 0) == (keep == 0) || keep < 0 {
				return usage(errors.New("prune: name checkpoints, or say by --keep N how many stay"))
			}
			var ids []int64
			for _, text := range args {
				id, err := checkpointID(text)
				if err != nil {
					return err
				}
				ids = append(ids, id)
			}
			return a.withStore(cmd.Context(), &f, func(ctx context.Context, c *config, s checkpoint.Store) error {
				return a.prune(ctx, c, s, ids, keep)
			})
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	cmd.Flags().IntVar(&keep, "keep", 0, "how many checkpoints stay beside the savepoints")
	return cmd
}

// pruned is what --json prints.
type pruned struct {
	Removed []int64 `json:"removed"`
}

func (a *app) prune(ctx context.Context, c *config, s checkpoint.Store, ids []int64, keep int) error {
	if keep > 0 {
		list, err := s.List(ctx, c.Pipeline)
		if err != nil {
			return err
		}
		ids = surplus(list, keep)
	}
	out := pruned{Removed: []int64{}}
	for _, id := range ids {
		err := s.Forget(ctx, c.Pipeline, id)
		if errors.Is(err, checkpoint.ErrNotFound) && keep > 0 {
			continue // a running pipeline prunes too
		}
		if err != nil {
			return err
		}
		out.Removed = append(out.Removed, id)
	}
	if a.json {
		return a.printJSON(out)
	}
	_, err := fmt.Fprintf(a.stdout, "removed %d checkpoints\n", len(out.Removed))
	return err
}

// surplus returns the checkpoints that are no savepoints, but for the last keep and the last of all.
func surplus(list []checkpoint.Checkpoint, keep int) []int64 {
	var plain []int64
	for _, cp := range list {
		if !cp.Savepoint {
			plain = append(plain, cp.ID)
		}
	}
	return plain[:max(0, len(plain)-keep)]
}

// checkpointID reads a checkpoint's number.
func checkpointID(text string) (int64, error) {
	id, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id < 1 {
		return 0, usage(fmt.Errorf("%q is no checkpoint's number; see replicator checkpoints list", text))
	}
	return id, nil
}
