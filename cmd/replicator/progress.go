package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"replicator/checkpoint"
)

const (
	barWidth    = 30
	barInterval = 100 * time.Millisecond // between two drawings
	clearLine   = "\r\x1b[K"
)

// progressBar draws how far a run has come in the last line of a terminal. Log lines are written through it, so that
// they go above the bar. It is safe for concurrent use.
type progressBar struct {
	out io.Writer

	mu    sync.Mutex
	line  string
	begun time.Time
	drawn time.Time
}

// Write writes a log line and draws the bar again below it.
func (b *progressBar) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.line == "" {
		return b.out.Write(p)
	}
	if _, err := io.WriteString(b.out, clearLine); err != nil {
		return 0, err
	}
	n, err := b.out.Write(p)
	if err != nil {
		return n, err
	}
	_, err = io.WriteString(b.out, b.line)
	return n, err
}

// show draws p.
func (b *progressBar) show(p checkpoint.Progress) {
	b.draw(p.ToGo <= 0, func(since time.Duration) string { return barText(p, since) })
}

// draw draws a line that text makes, from the time since the first one; not more often than the eye follows, unless it must be now. A terminal that
// has gone away does not stop a pipeline, so its errors are of no interest.
func (b *progressBar) draw(must bool, text func(since time.Duration) string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if b.begun.IsZero() {
		b.begun = now
	}
	if now.Sub(b.drawn) < barInterval && !must {
		return
	}
	b.drawn = now
	b.line = text(now.Sub(b.begun))
	fmt.Fprint(b.out, clearLine+b.line)
}

// clear ends the bar's line.
func (b *progressBar) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.line != "" {
		b.line = ""
		fmt.Fprintln(b.out)
	}
}

// barText is the bar without its line's control characters.
func barText(p checkpoint.Progress, since time.Duration) string {
	done := 1.0
	if p.Total > 0 {
		done = min(1, max(0, float64(p.Total-p.ToGo)/float64(p.Total)))
	}
	rate := 0.0
	if s := since.Seconds(); s > 0 {
		rate = float64(p.Events) / s
	}
	repeated := ""
	if p.Repeated > 0 {
		repeated = fmt.Sprintf(", %d repeated", p.Repeated)
	}
	return fmt.Sprintf("%s  %d events, %.0f/s%s, checkpoint %d, %d to go", barOf(done), p.Events, rate, repeated, p.Checkpoint, p.ToGo)
}

// barOf is the bar itself; done is from 0 to 1.
func barOf(done float64) string {
	full := int(done * barWidth)
	return fmt.Sprintf("[%s%s] %3.0f%%", strings.Repeat("=", full), strings.Repeat(" ", barWidth-full), 100*done)
}

// isTerminal says whether w is one that lines can be drawn over on.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull) // a character device too, and no terminal
	return err == nil && !os.SameFile(info, null)
}
