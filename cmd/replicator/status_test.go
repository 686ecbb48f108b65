package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"replicator/checkpoint"
	"replicator/cmd/replicator/ops"
	"replicator/debezium"
)

// TestStatusOfARunningPipelineIsShown for people and as JSON, and one that waits to start again is a failure that says why.
func TestStatusOfARunningPipelineIsShown(t *testing.T) {
	t.Parallel()
	port := ops.New(ops.Config{Pipeline: "shop", Preserve: true})
	server := httptest.NewServer(port.Handler())
	t.Cleanup(server.Close)
	var pipeline checkpoint.Config
	port.Attach(&pipeline, func(text string) string { return text })
	topic := debezium.Partition{Topic: "shop.shop.t"}
	pipeline.Observe(checkpoint.Recovered{Positions: debezium.Positions{topic: {Offset: 10}}})
	pipeline.Observe(checkpoint.Ends{Ends: map[debezium.Partition]int64{topic: 13}})
	pipeline.Progress(checkpoint.Progress{Checkpoint: 7, Events: 12, Rows: 10, AsideRows: 2})
	minuteAgo := time.Now().Add(-time.Minute)
	pipeline.Observe(checkpoint.SourceTransactions{Waiting: "u:9", Began: minuteAgo, Since: minuteAgo, Behind: 2, Disk: 30})
	code, stdout, stderr := call(t, "status", "--url", server.URL)
	for _, want := range []string{
		"pipeline     shop, running\n", "checkpoint   7", "lag          3 offsets", "events       12", "committed    10\n", "waiting      2 rows",
		"to be whole  3 transactions of the source wait, the oldest, u:9, for 1m", "; 30 bytes of them are on disk\n",
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	if code != exitDone {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	var got map[string]any
	if _, stdout, _ = call(t, "status", "--url", server.URL, "--json"); json.Unmarshal([]byte(stdout), &got) != nil || got["pipeline"] != "shop" || got["rows"] != 10.0 {
		t.Errorf("JSON: %s", stdout)
	}
	pipeline.Failed(errors.New("the target is gone"))
	if code, stdout, stderr = call(t, "status", "--url", server.URL); code != exitFailed ||
		!strings.Contains(stdout, "failure      the target is gone\n") || !strings.Contains(stderr, "pipeline shop does not run") {
		t.Errorf("exit code %d\n%s\n%s", code, stdout, stderr)
	}
}

// TestStatusSaysWhatToDo where nothing answers, something else does, or there is nothing to ask.
func TestStatusSaysWhatToDo(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	silent := writeConfig(t, "pipeline: shop\nsource: {brokers: ['127.0.0.1:9'], topics: [a]}\ntarget: {url: 'postgres://h/d'}\nhttp: {listen: ''}\n")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--url", gone.URL}, exitFailed, "no pipeline answers: does it run, and is this its http.listen?"},
		{[]string{"--url", other.URL}, exitFailed, "answers 404 Not Found: is this a pipeline's http.listen?"},
		{[]string{"--url", "nowhere"}, exitUsage, "--url: must be as in http://127.0.0.1:8088"},
		{[]string{"--url", other.URL, "--config", silent}, exitUsage, "name one of them"},
		{[]string{"--config", silent}, exitFailed, "pipeline shop: http.listen is off"},
		{[]string{"--watch", "--json"}, exitUsage, "name one of --watch and --json"},
	} {
		code, _, stderr := call(t, append([]string{"status"}, c.args...)...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%v: exit code %d, want %d and %q:\n%s", c.args, code, c.code, c.want, stderr)
		}
	}
}

// TestEveryCommandHasAManPage, and every shell a completion.
func TestEveryCommandHasAManPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if code, _, stderr := call(t, "man", dir); code != exitDone {
		t.Fatalf("exit code %d\n%s", code, stderr)
	}
	for _, page := range []string{"replicator.1", "replicator-run.1", "replicator-dead-letters-retry.1", "replicator-status.1"} {
		b, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil || !strings.Contains(string(b), ".SH SYNOPSIS") {
			t.Errorf("%s: %v, %d bytes", page, err, len(b))
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, stdout, stderr := call(t, "completion", shell); code != exitDone || !strings.Contains(stdout, "replicator") {
			t.Errorf("%s: exit code %d\n%s", shell, code, stderr)
		}
	}
}
