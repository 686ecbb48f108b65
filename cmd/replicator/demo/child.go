package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"replicator/txnsink/tether"
)

// child is the replicator as a process.
type child struct {
	cmd   *exec.Cmd
	log   string
	done  chan struct{} // closed when it has ended
	state error         // how, once done is closed
	err   error         // of its tether, once done is closed
}

// startChild runs command with args, tied to t. What it writes goes to the file log.
func startChild(command, env, args []string, log string, t *tether.Tether) (*child, error) {
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	argv := append(append([]string{}, command...), args...)
	// Without a context: the child is ended by kill alone, and waited for.
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = f, f
	t.Tie(cmd)
	err = errors.Join(cmd.Start(), f.Close())
	if err != nil {
		return nil, fmt.Errorf("start the replicator: %w", err)
	}
	c := &child{cmd: cmd, log: log, done: make(chan struct{})}
	go func() {
		c.state = cmd.Wait()
		c.err = t.Untie()
		close(c.done)
	}()
	return c, nil
}

// kill sends SIGKILL and waits for the end.
func (c *child) kill() error {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	<-c.done
	return c.err
}

// wait waits for the child to end by itself.
func (c *child) wait(ctx context.Context) error {
	select {
	case <-c.done:
		if c.state != nil {
			return fmt.Errorf("the replicator failed: %w; its log %s ends with:\n%s", c.state, c.log, c.tail(10))
		}
		return c.err
	case <-ctx.Done():
		return errors.Join(ctx.Err(), c.kill())
	}
}

// alive waits for d and fails if the child, which runs until it is killed, ends meanwhile.
func (c *child) alive(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-c.done:
		return fmt.Errorf("the replicator ended by itself (%v); its log %s ends with:\n%s", c.cmd.ProcessState, c.log, c.tail(10))
	case <-ctx.Done():
		return ctx.Err()
	}
}

// line is what the demo reads of one line of the child's log.
type line struct{ Msg, HTTP string }

// lines returns what the child has logged, in JSON.
func (c *child) lines() []line {
	b, err := os.ReadFile(c.log)
	if err != nil {
		return nil // a log that cannot be read has no messages; the demo's verdict does not rest on them
	}
	var out []line
	for text := range bytes.Lines(b) {
		var l line
		if json.Unmarshal(text, &l) == nil {
			out = append(out, l)
		}
	}
	return out
}

// said says whether the child has logged a message that begins with what.
func (c *child) said(what string) bool {
	for _, l := range c.lines() {
		if strings.HasPrefix(l.Msg, what) {
			return true
		}
	}
	return false
}

// tail returns the last lines of the log.
func (c *child) tail(n int) string {
	b, err := os.ReadFile(c.log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimRight(string(b), "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
