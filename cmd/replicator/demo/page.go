package demo

import (
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"time"
)

// pageAddress is where the status page is if nothing else is there.
const pageAddress = "127.0.0.1:8088"

// pages passes requests on to the replicator that runs at the moment, so that its page has one address over all the kills.
type pages struct {
	listener net.Listener
	server   *http.Server
	ended    chan error

	mu    sync.Mutex
	child *child
}

func servePages() (*pages, error) {
	l, err := net.Listen("tcp", pageAddress)
	if err != nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return nil, err
		}
	}
	p := &pages{listener: l, ended: make(chan error, 1)}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			if to := p.address(); to != nil {
				r.SetURL(to)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "the replicator was killed, and starts again", http.StatusBadGateway)
		},
	}
	p.server = &http.Server{Handler: proxy, ReadHeaderTimeout: 5 * time.Second}
	go func() { p.ended <- p.server.Serve(l) }()
	return p, nil
}

func (p *pages) url() string { return "http://" + p.listener.Addr().String() + "/" }

// show passes requests on to c from now on.
func (p *pages) show(c *child) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.child = c
}

// address is where the present child serves, or nil.
func (p *pages) address() *url.URL {
	p.mu.Lock()
	c := p.child
	p.mu.Unlock()
	if c == nil {
		return nil
	}
	for _, m := range c.lines() {
		if m.HTTP != "" {
			if u, err := url.Parse(m.HTTP); err == nil {
				return u
			}
		}
	}
	return nil
}

// stop ends everything at once, also the streams that pages hold open.
func (p *pages) stop() error {
	err := p.server.Close()
	if ended := <-p.ended; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}
