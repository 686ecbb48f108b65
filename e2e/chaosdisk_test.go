//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// smallDisk is a file system of its own, in a file: it can be filled, and frozen. Where the machine lets nobody mount one, as in a
// container, it is a directory like any other.
type smallDisk struct {
	dir     string
	mounted bool
	frozen  context.CancelFunc // ends the freezing
	ended   chan error
}

func newSmallDisk(t *testing.T) *smallDisk {
	t.Helper()
	image := filepath.Join(t.TempDir(), "disk")
	d := &smallDisk{dir: t.TempDir()}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 16<<20); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{{"mkfs.ext4", "-q", "-m", "0", image}, {"mount", "-o", "loop", image, d.dir}} {
		if out, err := exec.CommandContext(t.Context(), c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Logf("no disk is filled or frozen here: %s: %v\n%s", strings.Join(c, " "), err, out)
			return d
		}
	}
	d.mounted = true
	t.Cleanup(func() {
		if d.frozen != nil { // the test failed within the fault
			d.thaw(t)
		}
		out, err := exec.Command("umount", "-l", d.dir).CombinedOutput()
		if err != nil {
			t.Errorf("umount: %v\n%s", err, out)
		}
	})
	return d
}

func (d *smallDisk) ballast() string { return filepath.Join(d.dir, "ballast") }

// fill leaves no byte free.
func (d *smallDisk) fill(t *testing.T) {
	t.Helper()
	f, err := os.Create(d.ballast())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); errors.Is(err, syscall.ENOSPC) {
			block = block[:len(block)/2] // what did not fit may fit in part
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

func (d *smallDisk) empty(t *testing.T) {
	t.Helper()
	if err := os.Remove(d.ballast()); err != nil {
		t.Fatal(err)
	}
}

// freezeAgainAndAgain lets the disk answer for a moment twice a second.
func (d *smallDisk) freezeAgainAndAgain(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	d.frozen, d.ended = cancel, make(chan error, 1)
	go func() {
		for {
			if out, err := exec.Command("fsfreeze", "--freeze", d.dir).CombinedOutput(); err != nil {
				d.ended <- errors.Join(err, errors.New(string(out)))
				return
			}
			over := pause(ctx, 450*time.Millisecond)
			out, err := exec.Command("fsfreeze", "--unfreeze", d.dir).CombinedOutput()
			if err != nil {
				err = errors.Join(err, errors.New(string(out)))
			} else if over == nil {
				over = pause(ctx, 50*time.Millisecond)
			}
			if err != nil || over != nil {
				d.ended <- err
				return
			}
		}
	}()
}

func (d *smallDisk) thaw(t *testing.T) {
	t.Helper()
	d.frozen()
	d.frozen = nil
	if err := <-d.ended; err != nil {
		t.Fatalf("freeze %s: %v", d.dir, err)
	}
}

// buildWithJumpingClock begins to build the replicator with a wall clock that jumps every two seconds, to three days before or after
// now. It replaces one function of the standard library: a process reads its clock without a call that something outside could answer. The
// monotonic clock stays what it is, as it does when a machine's time is set.
func buildWithJumpingClock(t *testing.T) (binary func(*testing.T) string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	source := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	const now = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if strings.Count(string(text), now) != 1 {
		t.Fatalf("%s: time.Now does not begin as expected:\n%s", source, now)
	}
	changed := strings.Replace(string(text), now, now+"\tsec += jump(mono)\n", 1) + `
func jump(mono int64) int64 {
	n := uint64(mono/2e9) * 0x9e3779b97f4a7c15
	if n>>62 == 0 {
		return 0
	}
	return int64(n>>16%(6*86400)) - 3*86400
}
`
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: writeFile(t, "time.go", []byte(changed))}})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "replicator")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", writeFile(t, "overlay.json", overlay), "-o", path, "replicator/cmd/replicator")
	built := make(chan error, 1)
	go func() {
		out, err := build.CombinedOutput()
		if err != nil {
			err = errors.Join(err, errors.New(string(out)))
		}
		built <- err
	}()
	return func(t *testing.T) string {
		t.Helper()
		err := <-built
		built <- err // for the next who asks
		if err != nil {
			t.Fatalf("build with a clock that jumps: %v", err)
		}
		return path
	}
}
