//go:build browser

package browser

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// audit is JavaScript that returns what is wrong with the page for those who cannot see it well.
//
//go:embed audit.js
var audit string

// page is the status page in a tab.
type page struct {
	ctx context.Context

	mu      sync.Mutex
	errors  []string
	entries int // of the console's log: if there is none, nothing was listened to
}

func openPage(t *testing.T, url string) *page {
	t.Helper()
	program := cmp.Or(os.Getenv("CHROMIUM"), "chromium")
	if _, err := exec.LookPath(program); err != nil {
		t.Fatalf("%v: install Debian's chromium, or name it in CHROMIUM", err)
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(program), chromedp.NoSandbox, chromedp.WindowSize(1280, 900))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	p := &page{ctx: ctx}
	p.do(t) // begins the browser, which then lives as long as ctx
	err := chromedp.Listen(ctx, func(e any) {
		p.mu.Lock()
		defer p.mu.Unlock()
		switch e := e.(type) {
		case *runtime.EventExceptionThrown:
			p.errors = append(p.errors, fmt.Sprintf("%+v", e.ExceptionDetails))
		case *runtime.EventConsoleAPICalled:
			if e.Type == "error" || e.Type == "warning" {
				p.errors = append(p.errors, fmt.Sprintf("console: %+v", e.Args))
			}
		case *log.EventEntryAdded:
			p.entries++
			// That a dead process does not answer is what the test is about; and so is a token that is refused.
			if e.Entry.Level == "error" && e.Entry.Source != "network" || e.Entry.Source == "security" {
				p.errors = append(p.errors, e.Entry.Text)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p.do(t, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, log.Enable, cdp.Empty{})
		return err
	}), chromedp.Navigate(url))
	return p
}

// do carries actions out, within half a minute.
func (p *page) do(t *testing.T, steps ...chromedp.Action[chromedp.Void]) {
	t.Helper()
	if _, err := chromedp.Run(p.ctx, bounded(chromedp.Steps(steps...))); err != nil {
		t.Fatal(err)
	}
}

// ask returns what an expression of JavaScript says.
func ask[T any](t *testing.T, p *page, expression string) T {
	t.Helper()
	v, err := chromedp.Run(p.ctx, bounded(chromedp.Evaluate[T](expression)))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// bounded gives an action half a minute. The context of the browser itself must have no end of that kind.
func bounded[T any](a chromedp.Action[T]) chromedp.Action[T] {
	return func(ctx context.Context, t *chromedp.Target) (T, error) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		return a(ctx, t)
	}
}

// text returns an element's text.
func (p *page) text(t *testing.T, selector string) string {
	t.Helper()
	return strings.TrimSpace(ask[string](t, p, "document.querySelector("+strconv.Quote(selector)+")?.textContent ?? 'there is none'"))
}

// cells returns the texts of a table's body.
func (p *page) cells(t *testing.T, body string) [][]string {
	t.Helper()
	return ask[[][]string](t, p, "[...document.getElementById('"+body+"').rows].map((r) => [...r.cells].map((c) => c.textContent))")
}

// shot keeps a picture of the whole page.
func (p *page) shot(t *testing.T, name string) {
	t.Helper()
	dir := os.Getenv("BROWSER_SHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(p.ctx, bounded(chromedp.FullScreenshot(100)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// now waits until the page has been drawn for the window as it is.
func (p *page) now(t *testing.T) {
	t.Helper()
	ask[bool](t, p, "document.body.dataset.drawn = 0, requestAnimationFrame(() => requestAnimationFrame(() => document.body.dataset.drawn = 1)), true")
	eventually(t, "the page is drawn", func() bool { return ask[string](t, p, "document.body.dataset.drawn") == "1" })
}

// look shows the page as somebody would see it, audits it, and keeps a picture.
func (p *page) look(t *testing.T, name, scheme string, width, height int64) {
	t.Helper()
	p.do(t, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{
			Width: width, Height: height, DeviceScaleFactor: 1, Mobile: width < 600,
		})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
		})
		return err
	}))
	p.now(t)
	wrong := ask[[]string](t, p, audit)
	for _, w := range wrong {
		t.Errorf("%s: %s", name, w)
	}
	p.shot(t, name)
}

// produceUntil writes rows until the function that it returns is called.
func produceUntil(t *testing.T, s *stack) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			if err := s.produce(ctx, 20+n%40); err != nil {
				ended <- err
				return
			}
			select {
			case <-ctx.Done():
				ended <- nil
				return
			case <-tick.C:
			}
		}
	}()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil && ctx.Err() == nil {
			t.Fatal(err)
		}
	}
}

// figures are what the page shows besides tables.
func (p *page) figures(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, id := range []string{"state", "checkpoint", "lag", "lag-seconds", "in-doubt", "dead-letters", "aside-rows", "restarts"} {
		out[id] = p.text(t, "#"+id)
	}
	return out
}

func TestPageShowsTheStatusAndSurvivesAKill(t *testing.T) {
	s := newStack(t)
	s.start(t)
	p := openPage(t, "http://"+s.listen+"/")
	stop := produceUntil(t, s)
	eventually(t, "the page plots samples of rows that flow", func() bool {
		return p.text(t, "#state") == "running" && p.text(t, "#rate") != "0" && strings.Contains(p.text(t, "#rate-plot .readout"), "highest")
	})
	eventually(t, "and a few checkpoints", func() bool { return s.status(t).Checkpoint > 30 })
	if err := s.produceBad(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a record that was set aside is shown", func() bool { return p.text(t, "#aside-rows") == "1" && p.text(t, "#dead-letters") == "1" })
	p.look(t, "light", "light", 1280, 900)
	p.look(t, "dark", "dark", 1280, 900)
	p.look(t, "phone", "light", 390, 844)
	p.look(t, "phone-dark", "dark", 390, 844)
	p.look(t, "again", "light", 1280, 900)
	stop()

	same := func(what string) {
		t.Helper()
		var got, want map[string]string
		defer func() {
			if t.Failed() {
				t.Logf("%s: the page has\n%v\nand /api/status\n%v", what, got, want)
			}
		}()
		eventually(t, what+": the source is idle", func() bool { now := s.status(t); return now.Lag == 0 && now.State == "running" })
		eventually(t, what+": the page equals /api/status", func() bool {
			now := s.status(t)
			got = p.figures(t)
			want = map[string]string{
				"state": now.State, "checkpoint": strconv.FormatInt(now.Checkpoint, 10), "lag": "0", "lag-seconds": "0 s",
				"in-doubt": strconv.Itoa(len(now.InDoubt)), "dead-letters": strconv.FormatInt(now.DeadLetters, 10), "aside-rows": "1", "restarts": strconv.FormatInt(now.Restarts, 10),
			}
			now.cells(want)
			for _, body := range []string{"tables", "partitions", "asides"} {
				for i, row := range p.cells(t, body) {
					got[body+" "+strconv.Itoa(i)] = strings.ReplaceAll(strings.Join(row, " "), ",", "")
				}
			}
			for i, row := range p.cells(t, "tables") {
				if len(row) < 9 {
					continue // there is none
				}
				// The time of the last change is told in words.
				got["tables "+strconv.Itoa(i)] = strings.ReplaceAll(strings.Join(append(row[:7:7], row[8:]...), " "), ",", "")
			}
			for i, row := range p.cells(t, "runs") {
				got["runs "+strconv.Itoa(i)] = row[1] + " " + row[2]
			}
			return mapsEqual(got, want) && strings.Contains(p.text(t, "#about"), "3 lanes") && p.text(t, "#flow .gate ~ .name") == "3 lanes"
		})
	}
	same("before")
	rows := int64(0)
	for _, table := range s.status(t).Tables {
		rows += table.Rows
	}
	if rows != int64(s.rows) {
		t.Errorf("the tables have %d rows, %d were written", rows, s.rows)
	}

	actions(t, s, p)
	keyboard(t, p)

	epoch := s.status(t).Epoch
	s.kill(t)
	eventually(t, "the page says that it lost the replicator", func() bool {
		return p.text(t, "#state") == "disconnected" && strings.Contains(p.text(t, "#connection"), "does not answer")
	})
	p.look(t, "disconnected", "light", 1280, 900)
	s.start(t)
	eventually(t, "the page shows the new epoch", func() bool {
		return p.text(t, "#state") == "running" && strings.Contains(p.text(t, "#about"), "epoch "+strconv.FormatInt(epoch+1, 10))
	})

	// As a restart of the target does.
	s.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE 'replicator%'")
	if err := s.produce(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the page shows the restart and its reason", func() bool {
		runs := p.cells(t, "runs")
		// The first attempt to start again may find another connection that is gone.
		return len(runs) >= 2 && strings.HasPrefix(runs[0][1], "failed in ") && runs[0][5] != "" && p.text(t, "#restarts") != "0"
	})
	same("after")
	p.look(t, "restarted", "light", 1280, 900)
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.errors) > 0 || p.entries == 0 {
		t.Errorf("the console has errors: %q, of %d entries", p.errors, p.entries)
	}
}

// cells adds what the page's tables must show, by table and row.
func (now *status) cells(want map[string]string) {
	for i, table := range now.Tables {
		version := "–"
		if table.SchemaVersion != nil {
			version = strconv.FormatInt(*table.SchemaVersion, 10)
		}
		want["tables "+strconv.Itoa(i)] = fmt.Sprintf("%s %s %d %d %d %d %d %s", table.Source, table.Target, table.Rows, table.Reads, table.Creates, table.Updates, table.Deletes, version)
	}
	if len(now.Tables) == 0 {
		want["tables 0"] = "No row was applied yet."
	}
	for i, part := range now.Partitions {
		want["partitions "+strconv.Itoa(i)] = fmt.Sprintf("%s %d %d %d %d", part.Topic, part.Partition, part.Position, part.End, part.Lag)
	}
	for i, a := range now.Asides {
		want["asides "+strconv.Itoa(i)] = fmt.Sprintf("%s %s %d", a.Table, strings.ReplaceAll(a.Reason, "_", " "), a.Records)
	}
	if len(now.Asides) == 0 {
		want["asides 0"] = "No record was set aside."
	}
	for i, r := range now.Runs {
		reason := "process start"
		if r.Reason != "start" {
			reason = "failed in " + r.Reason
		}
		epoch := "–" // recovery was not reached
		if r.Epoch > 0 {
			epoch = strconv.FormatInt(r.Epoch, 10)
		}
		want["runs "+strconv.Itoa(len(now.Runs)-1-i)] = reason + " " + epoch
	}
}

func mapsEqual(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if b[k] != v {
			return false
		}
	}
	return true
}

// actions tries what needs the token.
func actions(t *testing.T, s *stack, p *page) {
	t.Helper()
	p.do(t, chromedp.SendKeys(chromedp.CSS("#token"), "wrong"), chromedp.Click(chromedp.CSS("#pause")))
	eventually(t, "a wrong token is refused", func() bool { return strings.Contains(p.text(t, "#answer"), "the token is not that of http.token") })
	p.do(t, chromedp.SetValue(chromedp.CSS("#token"), token), chromedp.Click(chromedp.CSS("#savepoint")))
	eventually(t, "a savepoint is cut", func() bool { return strings.HasSuffix(p.text(t, "#answer"), "is a savepoint.") })
	p.do(t, chromedp.Click(chromedp.CSS("#pause")))
	eventually(t, "it pauses", func() bool { return p.text(t, "#state") == "paused" })
	if err := s.produce(t.Context(), 8); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what comes while it is paused is behind", func() bool { return s.status(t).Lag == 8 })
	p.do(t, chromedp.Click(chromedp.CSS("#resume")))
	eventually(t, "it resumes", func() bool { return p.text(t, "#state") == "running" && s.status(t).Lag == 0 })
}

// keyboard reads a value from a plot without a pointer.
func keyboard(t *testing.T, p *page) {
	t.Helper()
	p.do(t, chromedp.Focus(chromedp.CSS("#rate-plot svg")), chromedp.KeyEvent(kb.ArrowLeft))
	eventually(t, "the arrow keys read a value", func() bool { return strings.Contains(p.text(t, "#rate-plot .readout"), ":") })
}
