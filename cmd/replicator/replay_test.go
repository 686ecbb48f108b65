package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"replicator/cmd/replicator/ops"
)

// freeAddress returns one that nothing listens at.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}()
	return l.Addr().String()
}

// TestSavepointIsReplayedElsewhere takes a savepoint of a running pipeline, exports it, and plays what came after
// into another schema, while the first pipeline's rows stay as they are.
func TestSavepointIsReplayedElsewhere(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, loadCase(t, "58"))
	file := r.file(t)
	records := r.records(t)
	r.produce(t, records[:2]...)
	r.exec(t, "CREATE SCHEMA replay; CREATE TABLE replay.pay (LIKE pay INCLUDING ALL)")
	port := []string{"--set", "http.listen=" + freeAddress(t), "--set", "http.token=sesame"}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan string, 1)
	go func() {
		var out, errs strings.Builder
		code := Main(ctx, append([]string{"run", "--config", file}, port...), strings.NewReader(""), &out, &errs)
		ended <- fmt.Sprintf("exit code %d\n%s", code, errs.String())
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for rows := ""; rows != "2"; <-tick.C { // it runs, and its own tables are there
		if code, stdout, _ := call(t, "checkpoints", "list", "--config", file); code == exitDone && strings.Count(stdout, "\n") > 1 {
			rows = *r.exec(t, "SELECT count(*) FROM pay")[0][0]
		}
	}
	made := facts[ops.Savepoint](t, exitDone, append([]string{"checkpoints", "save", "--config", file}, port...)...)
	wrong := append([]string{"checkpoints", "save", "--config", file}, port[0], port[1], "--set", "http.token=open")
	if code, _, stderr := call(t, wrong...); code != exitFailed || !strings.Contains(stderr, "http.token") {
		t.Errorf("with another token: exit code %d: %s", code, stderr)
	}
	ready, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+strings.TrimPrefix(port[1], "http.listen=")+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(ready)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("readyz: %v, %v", answer, err)
	} else if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	if end := <-ended; !strings.HasPrefix(end, "exit code 0") {
		t.Fatal(end)
	}
	r.produce(t, records[2:]...)
	if code, stderr := r.run(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}

	code, exported, stderr := call(t, "checkpoints", "export", fmt.Sprint(made.Checkpoint), "--config", file)
	if code != exitDone {
		t.Fatalf("export: exit code %d: %s", code, stderr)
	}
	out := filepath.Join(t.TempDir(), "checkpoint.json")
	if err := os.WriteFile(out, []byte(exported), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := call(t, "checkpoints", "import", out, "--config", file); code != exitFailed || !strings.Contains(stderr, "--set pipeline=") {
		t.Errorf("import over a pipeline: exit code %d: %s", code, stderr)
	}
	again := []string{"checkpoints", "import", out, "--config", file, "--set", "pipeline=again"}
	if code, _, stderr := call(t, again...); code != exitFailed || !strings.Contains(stderr, "to table public.pay") || !strings.Contains(stderr, "--replay") {
		t.Errorf("import into tables that are ahead: exit code %d: %s", code, stderr)
	}
	if code, _, stderr := call(t, append(again, "--set", "source.topics=['elsewhere']")...); code != exitUsage || !strings.Contains(stderr, "source.topics matches none") {
		t.Errorf("import of other topics: exit code %d: %s", code, stderr)
	}
	other := []string{"--config", file, "--set", "pipeline=again", "--set", "target.table=replay.{table}"}
	for _, args := range [][]string{{"checkpoints", "import", out}, {"run", "--until-caught-up"}, {"run", "--until-caught-up"}} {
		if code, _, stderr := call(t, append(args, other...)...); code != exitDone {
			t.Fatalf("%v: exit code %d: %s", args, code, stderr)
		}
	}
	r.expect(t, caseResult{Query: "SELECT id, amt FROM replay.pay ORDER BY id", Rows: [][]*string{{ptr("3"), ptr("30")}}})
	r.expect(t, caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{{ptr("3"), ptr("60")}}})

	back := []string{"run", "--until-caught-up", "--config", file, "--from", fmt.Sprint(made.Checkpoint)}
	if code, _, stderr := call(t, back...); code != exitFailed || !strings.Contains(stderr, "--replay") {
		t.Errorf("run --from: exit code %d: %s", code, stderr)
	}
	r.exec(t, "TRUNCATE pay")
	if code, _, stderr := call(t, append(back, "--replay")...); code != exitDone {
		t.Errorf("run --from --replay: exit code %d: %s", code, stderr)
	}
	r.expect(t, caseResult{Query: "SELECT id, amt FROM pay ORDER BY id", Rows: [][]*string{{ptr("3"), ptr("30")}}})
	if code, _, stderr := call(t, "run", "--config", file, "--until", "x"); code != exitUsage || !strings.Contains(stderr, "--until x") {
		t.Errorf("run --until x: exit code %d: %s", code, stderr)
	}

	facts[pruned](t, exitDone, "checkpoints", "prune", "--keep", "1", "--config", file)
	list := facts[[]checkpointFacts](t, exitDone, "checkpoints", "list", "--config", file)
	if len(list) != 2 || list[0].ID != made.Checkpoint || !list[0].Savepoint {
		t.Errorf("after prune --keep 1: %+v", list)
	}
	if got := facts[pruned](t, exitDone, "checkpoints", "prune", fmt.Sprint(made.Checkpoint), "--config", file); len(got.Removed) != 1 {
		t.Errorf("prune of a savepoint: %+v", got)
	}
	if code, _, stderr := call(t, "checkpoints", "prune", fmt.Sprint(list[1].ID), "--config", file); code != exitFailed || !strings.Contains(stderr, "the last one") {
		t.Errorf("prune of the last one: exit code %d: %s", code, stderr)
	}
}
