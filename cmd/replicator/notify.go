package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"time"

	"replicator/checkpoint"
)

// Bounds of a message: how long a service manager that does not read can hold the pipeline up, and how long a line may be.
const (
	notifyLimit = time.Second
	notifyLine  = 512
)

// manager is the service manager that started the process, if it wants to hear how it is: systemd does with Type=notify. The
// protocol is that of sd_notify(3), one datagram a message, to the socket that NOTIFY_SOCKET names.
type manager struct {
	conn net.Conn // nil: nobody wants to hear
	log  *slog.Logger
}

func (a *app) manager(log *slog.Logger) *manager {
	m := &manager{log: log}
	socket, ok := a.getenv("NOTIFY_SOCKET")
	if !ok || socket == "" {
		return m
	}
	conn, err := net.Dial("unixgram", socket) // a name that begins with @ is an abstract one, to net as to systemd
	if err != nil {
		log.Warn("the service manager cannot be told that the pipeline runs", "error", err)
		return m
	}
	m.conn = conn
	return m
}

// attach tells the manager when recovery is done, which is when the service is up; why the pipeline starts again; and, when
// ctx is done, that it stops. The function that it returns ends that.
func (m *manager) attach(ctx context.Context, p *checkpoint.Config) func() {
	if m.conn == nil {
		return func() {}
	}
	observe, failed := p.Observe, p.Failed
	p.Observe = func(o checkpoint.Observation) {
		observe(o)
		switch o := o.(type) {
		case checkpoint.Recovered:
			m.send("READY=1", fmt.Sprintf("STATUS=running from checkpoint %d on, in epoch %d", o.Checkpoint, o.Epoch))
		case checkpoint.Joined: // one that waits is up, too
			m.send("READY=1", fmt.Sprintf("STATUS=a member of the group, with %d slots", len(o.Slots)))
		}
	}
	p.Failed = func(err error) {
		failed(err)
		m.send("STATUS=starting again after a failure: " + redact(err.Error()))
	}
	told := make(chan struct{})
	tell := func() {
		m.send("STOPPING=1", "STATUS=cutting a last checkpoint")
		close(told)
	}
	stop := context.AfterFunc(ctx, tell)
	return func() {
		if ctx.Err() != nil && stop() {
			tell() // the run ended before the function got its turn
		} else if !stop() {
			<-told
		}
		if err := m.conn.Close(); err != nil {
			m.log.Warn("closing the socket of the service manager", "error", err)
		}
	}
}

// send sends lines. That nobody hears them is no reason to stop.
func (m *manager) send(lines ...string) {
	for i, line := range lines {
		lines[i] = strings.ReplaceAll(line[:min(len(line), notifyLine)], "\n", " ")
	}
	err := m.conn.SetWriteDeadline(time.Now().Add(notifyLimit))
	if err == nil {
		_, err = m.conn.Write([]byte(strings.Join(lines, "\n")))
	}
	if err != nil {
		m.log.Warn("the service manager does not hear", "error", err)
	}
}
