package pgserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"
)

// starter is set for a process of this test binary that starts a server and waits to be killed.
const starter = "REPLICATOR_TEST_STARTER"

func TestMain(m *testing.M) {
	dir := os.Getenv(starter)
	if dir == "" {
		os.Exit(m.Run())
	}
	s, err := Start(context.Background(), Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.proc.cmd.Process.Pid, s.dir)
	<-s.proc.done
}

// TestServerEndsWithAKilledStarter, which had no chance to stop it.
func TestServerEndsWithAKilledStarter(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	for _, dir := range []string{parent, parent + "/.."} { // the server's user must get through
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), starter+"="+parent)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := bufio.NewReader(out).ReadString('\n')
	var pid int
	var dir string
	if _, serr := fmt.Sscan(text, &pid, &dir); err != nil || serr != nil {
		t.Fatalf("%v, %v: %s", err, serr, text)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Fatal("the starter ended by itself")
	}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for range 3000 {
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && !alive(pid) {
			return
		}
		<-tick.C
	}
	t.Fatalf("after a minute process %d is alive: %v; or %s is there", pid, alive(pid), dir)
}
