package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"replicator/cmd/replicator/ops"
)

const (
	statusTimeout = 10 * time.Second
	statusEvery   = time.Second
	maxStatus     = 16 << 20 // of an answer, which may name every table and partition
)

// statusFlags are the flags of status.
type statusFlags struct {
	configFlags
	url   string
	watch bool
}

func (a *app) statusCommand() *cobra.Command {
	var f statusFlags
	cmd := &cobra.Command{
		Use: "status [--url URL | --config FILE]", Short: "Show how far a running pipeline is.", Args: cobra.NoArgs,
		Long: `Ask a running pipeline, at its http.listen, how far it is.
The exit code is 1 if it does not answer or does not run. --json prints all that /api/status says.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.watch && a.json {
				return usage(errors.New("--watch draws over its lines, which JSON cannot be: name one of --watch and --json"))
			}
			at, err := a.statusURL(&f)
			if err != nil {
				return err
			}
			if f.watch {
				return a.watchStatus(cmd.Context(), at)
			}
			return a.showStatus(cmd.Context(), at)
		},
	}
	f.add(cmd)
	a.jsonFlag(cmd)
	cmd.Flags().StringVar(&f.url, "url", "", "where the pipeline's http.listen is, as in http://127.0.0.1:8088 (the default, without --config)")
	cmd.Flags().BoolVarP(&f.watch, "watch", "w", false, "show it every second until interrupted")
	return cmd
}

// statusURL is the address of /api/status.
func (a *app) statusURL(f *statusFlags) (string, error) {
	base := f.url
	switch {
	case f.url != "" && f.file != "":
		return "", usage(errors.New("--url and --config both say where the pipeline is: name one of them"))
	case f.file != "":
		c, err := a.load(&f.configFlags)
		if err != nil {
			return "", err
		}
		if base, err = listenURL(c.HTTP.Listen); err != nil {
			return "", inPipeline(&c, err)
		}
	case f.url == "":
		base = "http://" + defaultListen
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return "", usage(errors.New("--url: must be as in http://127.0.0.1:8088"))
	}
	return u.JoinPath("api", "status").String(), nil
}

// listenURL is where this machine finds what listens at http.listen.
func listenURL(listen string) (string, error) {
	if listen == "" {
		return "", errors.New("http.listen is off, and a running pipeline is asked there: set it, and start the pipeline again")
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", fmt.Errorf("http.listen: %w", err)
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

// statusFacts is what is shown of an answer. A pointer is for what not every version says.
type statusFacts struct {
	Pipeline      string   `json:"pipeline"`
	Running       bool     `json:"running"`
	Failure       string   `json:"failure"`
	Restarts      int64    `json:"restarts"`
	Checkpoint    int64    `json:"checkpoint"`
	CheckpointAge *float64 `json:"checkpoint_age_seconds"`
	Events        int64    `json:"events"`
	Rows          int64    `json:"rows"`
	Repeated      int64    `json:"repeated"`
	Rate          *float64 `json:"rate"`
	Lag           int64    `json:"lag"`
	LagSeconds    *float64 `json:"lag_seconds"`
	AsideRows     *int64   `json:"aside_rows"`

	SourceTransactions *ops.SourceTransactions `json:"source_transactions"`
}

// askStatus returns an answer as it came, and what it says.
func askStatus(ctx context.Context, at string) (json.RawMessage, statusFacts, error) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var facts statusFacts
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, facts, err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, facts, fmt.Errorf("no pipeline answers: does it run, and is this its http.listen? %w", err)
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxStatus))
	if err := errors.Join(err, answer.Body.Close()); err != nil {
		return nil, facts, fmt.Errorf("%s: %w", at, err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, facts, fmt.Errorf("%s answers %s: is this a pipeline's http.listen?", at, answer.Status)
	}
	if err := json.Unmarshal(body, &facts); err != nil || facts.Pipeline == "" {
		return nil, facts, fmt.Errorf("%s answers something else than a pipeline's status: is this a pipeline's http.listen?", at)
	}
	return body, facts, nil
}

func (a *app) showStatus(ctx context.Context, at string) error {
	body, facts, err := askStatus(ctx, at)
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(body)
	} else {
		_, err = io.WriteString(a.stdout, facts.text())
	}
	if err == nil && !facts.Running {
		err = fmt.Errorf("pipeline %s does not run", facts.Pipeline)
	}
	return err
}

// watchStatus draws the status over the one before until ctx is done. A pipeline that does not answer may be starting again.
func (a *app) watchStatus(ctx context.Context, at string) error {
	tick := time.NewTicker(statusEvery)
	defer tick.Stop()
	lines := 0
	for {
		_, facts, err := askStatus(ctx, at)
		text := facts.text()
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			text = err.Error() + "\n"
		}
		if lines > 0 && isTerminal(a.stdout) {
			fmt.Fprintf(a.stdout, "\x1b[%dA\x1b[J", lines)
		}
		if _, err := io.WriteString(a.stdout, text); err != nil {
			return err
		}
		lines = strings.Count(text, "\n")
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// text is the status for people, a line for each thing.
func (s *statusFacts) text() string {
	var b strings.Builder
	state := "running"
	if !s.Running {
		state = "not running"
	}
	fmt.Fprintf(&b, "pipeline     %s, %s\n", s.Pipeline, state)
	if s.Failure != "" {
		fmt.Fprintf(&b, "failure      %s\n", s.Failure)
	}
	fmt.Fprintf(&b, "checkpoint   %d", s.Checkpoint)
	if s.CheckpointAge != nil {
		fmt.Fprintf(&b, ", %v ago", seconds(*s.CheckpointAge))
	}
	fmt.Fprintf(&b, "\nlag          %d offsets", s.Lag)
	if s.LagSeconds != nil {
		fmt.Fprintf(&b, ", %v", seconds(*s.LagSeconds))
	}
	fmt.Fprintf(&b, "\nevents       %d", s.Events)
	if s.Rate != nil {
		fmt.Fprintf(&b, ", %.0f a second", *s.Rate)
	}
	fmt.Fprintf(&b, "\ncommitted    %d\n", s.Rows)
	for _, n := range []struct {
		name  string
		count int64
	}{{"repeated", s.Repeated}, {"restarts", s.Restarts}} {
		if n.count > 0 {
			fmt.Fprintf(&b, "%-12s %d\n", n.name, n.count)
		}
	}
	if s.AsideRows != nil && *s.AsideRows > 0 {
		fmt.Fprintf(&b, "waiting      %d rows, of which records are set aside; see replicator dead-letters list\n", *s.AsideRows)
	}
	if t := s.SourceTransactions; t != nil && t.Waiting > 0 {
		fmt.Fprintf(&b, "to be whole  %d transactions of the source wait, the oldest, %s, for %v, and nothing of it came for %v; %d bytes of them are on disk\n",
			t.Waiting, t.Oldest, seconds(t.OldestSeconds), seconds(t.SilentSeconds), t.SpilledBytes)
	}
	return b.String()
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond)
}
