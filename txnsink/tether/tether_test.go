//go:build unix

package tether

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// starter is set for a process of this test binary that ties another one to itself and then waits to be killed.
const starter = "REPLICATOR_TEST_STARTER"

func TestMain(m *testing.M) {
	dir := os.Getenv(starter)
	if dir == "" {
		os.Exit(m.Run())
	}
	if err := start(dir); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// start ties first a process that ends, then one that does not; both write to the standard output.
func start(dir string) error {
	t, err := Hold(dir)
	if err != nil {
		return err
	}
	for _, script := range []string{"echo one", "echo another; exec sleep 3600"} {
		cmd := exec.Command("/bin/sh", "-c", script)
		cmd.Stdout = os.Stdout
		t.Tie(cmd)
		if err := cmd.Start(); err != nil {
			return err
		}
		if err := errors.Join(cmd.Wait(), t.Untie()); err != nil {
			return err
		}
	}
	return nil
}

func gone(t *testing.T, dir string) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 3000 {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return
		}
		<-tick.C
	}
	t.Fatalf("%s is there after a minute", dir)
}

// TestProcessEndsWithAKilledStarter: the end of the output says that nobody is left who could write to it.
func TestProcessEndsWithAKilledStarter(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a 'directory'")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, "file"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), starter+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	for _, want := range []string{"one\n", "another\n"} {
		if got, err := lines.ReadString('\n'); err != nil || got != want {
			t.Fatalf("got %q, %v; want %q", got, err, want)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(lines); err != nil || len(rest) > 0 {
		t.Errorf("then %q, %v", rest, err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the starter ended by itself")
	}
	gone(t, dir)
}

// TestTiedProcessIsAsItWouldBe: its arguments, its name, its process and how it ends.
func TestTiedProcessIsAsItWouldBe(t *testing.T) {
	t.Parallel()
	hold, err := Hold("")
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := exec.Command("sh", "-c", `echo "$1|$2|$$"; exit 7`, "sh", "a  b", "$c'")
	cmd.Stdout = &out
	hold.Tie(cmd)
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("ended with %v", err)
	}
	if want := fmt.Sprintf("a  b|$c'|%d\n", cmd.Process.Pid); out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if err := errors.Join(hold.Untie(), hold.Release()); err != nil {
		t.Error(err)
	}
}

// TestReleaseEndsWhatIsStillTied, and removes the directory.
func TestReleaseEndsWhatIsStillTied(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	hold, err := Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sleep", "3600")
	hold.Tie(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() { waited <- cmd.Wait() }()
	if err := hold.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err == nil {
		t.Error("the process ended by itself")
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("directory after Release: %v", err)
	}
}
