package pgserver

import (
	"errors"
	"fmt"
	"os/exec"
	"time"

	"replicator/txnsink/tether"
)

// process is the server's first process, which starts all others.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and was waited for
	err  error         // of waiting, once done is closed
}

// watch waits in the background for cmd, which is tied to t.
func watch(cmd *exec.Cmd, t *tether.Tether) *process {
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		err := cmd.Wait()
		// How it ended is of no interest: by a signal, mostly, and its log says the rest.
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = nil
		}
		p.err = errors.Join(err, t.Untie())
	}()
	return p
}

// ended says whether the process is gone.
func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// wait waits until the process and the given others are gone: while one of them lives, the server's shared memory is
// in use and a new server refuses to start.
func (p *process) wait(others []int) error {
	limit := time.NewTimer(stopTimeout)
	defer limit.Stop()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	select {
	case <-p.done:
	case <-limit.C:
		return fmt.Errorf("process %d of PostgreSQL does not end", p.cmd.Process.Pid)
	}
	for _, pid := range others {
		for alive(pid) {
			select {
			case <-tick.C:
			case <-limit.C:
				return fmt.Errorf("process %d of PostgreSQL does not end", pid)
			}
		}
	}
	return p.err
}
