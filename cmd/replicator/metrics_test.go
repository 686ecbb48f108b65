package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// wantMetrics are the metrics that scripts and alerts rely on, with their labels. The histogram has a le of its own.
var wantMetrics = map[string]string{
	"events_total": "op table", "rows_applied_total": "table", "bytes_read_total": "", "lag_events": "partition topic", "lag_seconds": "",
	"checkpoint_seconds_bucket": "le phase", "checkpoint_seconds_sum": "phase", "checkpoint_seconds_count": "phase",
	"checkpoints_total": "result", "checkpoint_last_id": "", "checkpoint_age_seconds": "", "transactions_in_doubt": "",
	"transaction_oldest_seconds": "", "restarts_total": "reason", "dead_letters_total": "reason table", "ddl_total": "kind",
	"build_info": "commit goversion version",

	"source_transactions_total": "result", "source_transaction_waiting_seconds": "", "source_transactions_buffered_bytes": "",
	"source_transactions_waiting": "", "source_transaction_oldest_seconds": "", "source_transactions_spilled_bytes": "",
}

// alwaysFed are those that are more than zero once a pipeline has done what this test has it do; what remains is zero at rest.
var alwaysFed = []string{
	`events_total{op="c",table="d.public.pay"}`, `rows_applied_total{table="public.pay"}`, "bytes_read_total", `checkpoint_seconds_count{phase="align"}`,
	`checkpoint_seconds_count{phase="apply"}`, `checkpoint_seconds_count{phase="prepare"}`, `checkpoint_seconds_count{phase="save"}`,
	`checkpoint_seconds_count{phase="commit"}`, `checkpoints_total{result="complete"}`, "checkpoint_last_id", "checkpoint_age_seconds",
	`dead_letters_total{reason="bad_record",table="`, `ddl_total{kind="add_column"}`, "restarts_total{reason=", "build_info{",
}

var metricLine = regexp.MustCompile(`(?m)^replicator_(\w+)(?:\{(.*)\})? (\S+)$`)

// TestEveryMetricIsFed runs a pipeline through all that is counted, and compares /metrics with the list, names and labels.
func TestEveryMetricIsFed(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, &caseFile{})
	r.exec(t, "CREATE TABLE pay (id int PRIMARY KEY)")
	r.createTopic(t)
	bad := pay("c", 1, 1)
	bad.value = []byte("{")
	typed := pay("c", 2, 20) // with a schema, by which the column that the table lacks is added
	typed.value = fmt.Appendf(nil, `{"schema":{"type":"struct","fields":[{"field":"before","type":"struct","optional":true,"fields":%[1]s},{"field":"after","type":"struct","optional":true,"fields":%[1]s},
		{"field":"source","type":"struct","fields":[{"field":"connector","type":"string"},{"field":"name","type":"string"},{"field":"db","type":"string"},{"field":"schema","type":"string"},{"field":"table","type":"string"}]},
		{"field":"op","type":"string"}]},"payload":%[2]s}`, `[{"field":"id","type":"int32"},{"field":"amt","type":"int32","optional":true}]`, typed.value)
	r.send(t, typed, bad)
	address := freeAddress(t)
	file := r.file(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan string, 1)
	go func() {
		var errs strings.Builder
		code := Main(ctx, []string{"run", "--config", file, "--set", "http.listen=" + address, "--set", letterSetting + "=dead-letter"}, strings.NewReader(""), io.Discard, &errs)
		ended <- fmt.Sprintf("exit code %d\n%s", code, errs.String())
	}()
	stop := func() string { cancel(); return <-ended }
	until := func(what string, ok func(text string) bool) string {
		t.Helper()
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		text := ""
		for range 1800 {
			if text = scrape(t, address); ok(text) {
				return text
			}
			<-tick.C
		}
		t.Fatalf("not within 90 s: %s\n%s\n%s", what, text, stop())
		return ""
	}
	until("the row is applied", func(text string) bool {
		return strings.Contains(text, `replicator_rows_applied_total{table="public.pay"} 1`)
	})
	until("a failure ends a run", func(text string) bool {
		r.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'replicator%' AND datname = current_database()")
		return strings.Contains(text, "replicator_restarts_total{")
	})
	text := until("it goes on", func(text string) bool {
		r.send(t, pay("u", 2, 21))
		return strings.Contains(text, `replicator_events_total{op="u",table="d.public.pay"}`)
	})
	if end := stop(); !strings.HasPrefix(end, "exit code 0\n") {
		t.Error(end)
	}

	got := map[string]string{}
	for _, m := range metricLine.FindAllStringSubmatch(text, -1) {
		var labels []string
		for _, l := range regexp.MustCompile(`(\w+)="`).FindAllStringSubmatch(m[2], -1) {
			labels = append(labels, l[1])
		}
		slices.Sort(labels)
		got[m[1]] = strings.Join(labels, " ")
	}
	if !maps.Equal(got, wantMetrics) {
		t.Errorf("got\n%v\nwant\n%v", got, wantMetrics)
	}
	for _, name := range alwaysFed {
		fed := false
		for line := range strings.Lines(text) {
			fed = fed || strings.HasPrefix(line, "replicator_"+name) && !strings.HasSuffix(line, " 0\n")
		}
		if !fed {
			t.Errorf("nothing feeds %s", name)
		}
	}
}

// scrape returns /metrics, or nothing while nobody answers.
func scrape(t *testing.T, address string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	body, err := io.ReadAll(answer.Body)
	if cerr := answer.Body.Close(); err != nil || cerr != nil {
		t.Fatal(err, cerr)
	}
	return string(body)
}
