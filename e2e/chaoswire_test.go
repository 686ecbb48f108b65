//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// wire is a proxy between the replicators and one server.
type wire struct {
	name  string
	near  string // where it listens
	proxy *toxiproxy.Proxy
}

// toxic is what a wire can do to its connections. Of one without JSON the wire is cut, and refuses new connections.
type toxic struct{ name, json string }

var toxics = []toxic{
	{"refused", ""},
	{"reset", `{"type":"reset_peer","attributes":{"timeout":0}}`},
	{"cut within an answer", `{"type":"limit_data","attributes":{"bytes":20011}}`},
	{"cut within a request", `{"type":"limit_data","stream":"upstream","attributes":{"bytes":10007}}`},
	{"silent", `{"type":"timeout","attributes":{"timeout":0}}`},
	{"late", `{"type":"latency","attributes":{"latency":250,"jitter":200}}`},
	{"narrow", `{"type":"bandwidth","attributes":{"rate":40}}`},
}

// openWires makes a wire to each server that a replicator talks to. Kafka's is where the broker says that it is.
func (s *stack) openWires(t *testing.T, target, address string) []*wire {
	t.Helper()
	zerolog.SetGlobalLevel(zerolog.Disabled) // some toxics have a logger of their own
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	var wires []*wire
	for _, w := range []struct{ name, near, far string }{
		{"kafka", environment(t, "LAB_KAFKA_PROXY"), environment(t, "LAB_KAFKA_BEHIND")},
		{target, "127.0.0.1:0", address},
		{"registry", "127.0.0.1:0", hostOf(t, s.registry)},
	} {
		p := toxiproxy.NewProxy(server, w.name, w.near, w.far)
		if err := p.Start(); err != nil {
			t.Fatalf("proxy to %s: %v", w.name, err)
		}
		t.Cleanup(p.Stop)
		wires = append(wires, &wire{name: w.name, near: p.Listen, proxy: p})
	}
	return wires
}

func (c *chaos) wire(name string) *wire {
	return c.wires[slices.IndexFunc(c.wires, func(w *wire) bool { return w.name == name })]
}

func (w *wire) poison(t *testing.T, x toxic) {
	t.Helper()
	if x.json == "" {
		w.proxy.Stop()
		return
	}
	if _, err := w.proxy.Toxics.AddToxicJson(strings.NewReader(x.json)); err != nil {
		t.Fatalf("connection to %s, %s: %v", w.name, x.name, err)
	}
}

// mend makes the wire work for new connections. Those that it had are closed: no toxic may outlive its fault in one of them.
func (w *wire) mend(t *testing.T) {
	t.Helper()
	w.proxy.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w.proxy.Toxics.ResetToxics(ctx)
	if err := w.proxy.Start(); err != nil {
		t.Fatal(fmt.Errorf("connection to %s: %w", w.name, err))
	}
}
