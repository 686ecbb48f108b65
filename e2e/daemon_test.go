//go:build e2e

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// daemon is one process of the replicator. Everything that the processes of one configuration write goes to one file.
type daemon struct {
	process *exec.Cmd
	log     string
	ended   chan struct{} // closed when the process has ended and err is set
	err     error
}

const configuration = `pipeline: %s
source:
  brokers: [%s]
  topics: ['plain\.shop\..*']
  schema_changes: plain
target:
  url: %s
tables:
  - match: 'shop\.dbz_signal' # the connector's own
    skip: true
delivery: two-phase
checkpoint:
  interval: 200ms
schema:
  types: {nul: strip}
http: {listen: ''}
`

func (s *stack) writeConfiguration(t *testing.T) string {
	t.Helper()
	return writeFile(t, s.pipeline+".yaml", fmt.Appendf(nil, configuration, s.pipeline, s.broker, s.databaseURL(s.database)))
}

// writeFile writes a file that goes with the test.
func writeFile(t *testing.T, name string, text []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (s *stack) start(t *testing.T, config string, args ...string) *daemon {
	t.Helper()
	d := &daemon{log: filepath.Join(s.logs, s.pipeline+".log"), ended: make(chan struct{})}
	log, err := os.OpenFile(d.log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close() // the process has its own
	d.process = exec.Command(s.binary, append([]string{"run", "--config", config}, args...)...)
	d.process.Stdout, d.process.Stderr = log, log
	if err := d.process.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		d.err = d.process.Wait()
		close(d.ended)
	}()
	t.Cleanup(func() { // a failed test leaves no process behind, and Wait has returned
		select {
		case <-d.ended:
		default:
			d.kill(t)
		}
	})
	return d
}

// kill ends the process as a crash would, and waits until it is gone.
func (d *daemon) kill(t *testing.T) {
	t.Helper()
	if err := d.process.Process.Kill(); err != nil {
		t.Errorf("kill the replicator: %v", err)
	}
	<-d.ended
}

// stop asks the process to end, and fails the test when it does not end well.
func (d *daemon) stop(t *testing.T) {
	t.Helper()
	if err := d.process.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatalf("ask the replicator to end: %v", err)
	}
	d.wait(t, 30*time.Second)
}

// wait waits for the process to end by itself with exit code 0.
func (d *daemon) wait(t *testing.T, limit time.Duration) {
	t.Helper()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-d.ended:
		if d.err != nil {
			t.Fatalf("the replicator ended with %v\n%s", d.err, d.tail())
		}
	case <-late.C:
		t.Fatalf("the replicator did not end in %v\n%s", limit, d.tail())
	}
}

// running fails the test when the process has ended although nobody asked it to.
func (d *daemon) running(t *testing.T) {
	t.Helper()
	select {
	case <-d.ended:
		t.Fatalf("the replicator ended by itself: %v\n%s", d.err, d.tail())
	default:
	}
}

// tail is the end of what the processes wrote.
func (d *daemon) tail() string {
	const most = 4000
	b, err := os.ReadFile(d.log)
	if err != nil {
		return err.Error()
	}
	if len(b) > most {
		b = b[len(b)-most:]
		b = b[bytes.IndexByte(b, '\n')+1:]
	}
	return "the end of " + d.log + ":\n" + string(b)
}
