package mysqlserver

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strconv"
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
	s, err := Start(context.Background(), Config{Kind: MySQL9, Dir: dir})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(s.port, s.dir)
	<-s.done
}

// TestServerEndsWithAKilledStarter, which had no chance to stop it.
func TestServerEndsWithAKilledStarter(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), starter+"="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	text, err := bufio.NewReader(out).ReadString('\n')
	var port int
	var dir string
	if _, serr := fmt.Sscan(text, &port, &dir); err != nil || serr != nil {
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
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && !listens(t, port) {
			return
		}
		<-tick.C
	}
	t.Fatalf("after a minute a server listens on %d: %v; or %s is there", port, listens(t, port), dir)
}

func listens(t *testing.T, port int) bool {
	conn, err := net.Dial("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	if err := conn.Close(); err != nil {
		t.Error(err)
	}
	return true
}
