// Package ops is a running pipeline's HTTP port, for those who operate it.
//
//	GET  /healthz        200 while the process lives
//	GET  /readyz         200 while the pipeline runs, 503 before it does and while it waits to start again
//	GET  /api/status     how far it is, as JSON
//	POST /api/savepoint  cuts a checkpoint that pruning keeps, and returns its number; needs the token
package ops

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"replicator/checkpoint"
)

// Bounds of what a client may hold up.
const (
	headerTimeout   = 5 * time.Second
	requestTimeout  = 30 * time.Second
	shutdownTimeout = 2 * time.Second
	savepointWait   = 60 * time.Second
	maxHeader       = 64 << 10
)

// Config is what the port shows.
type Config struct {
	Pipeline string
	Token    string       // that a savepoint needs; empty: savepoints are refused
	Log      *slog.Logger // nil: silent
}

// Server is the state that the port shows, and its handler. It is safe for concurrent use.
type Server struct {
	config     Config
	savepoints chan chan<- checkpoint.Checkpoint

	mu       sync.Mutex
	running  bool
	progress checkpoint.Progress
	failure  string
	restarts int64
}

// Status is what /api/status returns.
type Status struct {
	Pipeline   string `json:"pipeline"`
	Running    bool   `json:"running"`
	Failure    string `json:"failure,omitempty"` // the last one, while it waits to start again
	Restarts   int64  `json:"restarts"`
	Checkpoint int64  `json:"checkpoint"`
	Events     int64  `json:"events"` // since the pipeline began to run, as are the next two
	Rows       int64  `json:"rows"`
	Repeated   int64  `json:"repeated"`
	Lag        int64  `json:"lag"` // offsets
}

// Savepoint is what /api/savepoint returns.
type Savepoint struct {
	Checkpoint int64 `json:"checkpoint"`
}

// failed is what a request that fails returns.
type failed struct {
	Error string `json:"error"`
}

// New returns the port of a pipeline that has not begun to run.
func New(c Config) *Server {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return &Server{config: c, savepoints: make(chan chan<- checkpoint.Checkpoint)}
}

// Savepoints is for the pipeline's configuration.
func (s *Server) Savepoints() <-chan chan<- checkpoint.Checkpoint { return s.savepoints }

// Progress is for the pipeline's configuration.
func (s *Server) Progress(p checkpoint.Progress) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.failure, s.progress = true, "", p
}

// Failed is for the pipeline's configuration; text is what may be shown of the error.
func (s *Server) Failed(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.failure = false, text
	s.restarts++
}

// Status returns what the port shows.
func (s *Server) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.progress
	return Status{
		Pipeline: s.config.Pipeline, Running: s.running, Failure: s.failure, Restarts: s.restarts,
		Checkpoint: p.Checkpoint, Events: p.Events, Rows: p.Rows, Repeated: p.Repeated, Lag: p.Lag,
	}
}

// Handler answers the requests that the package's text lists.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { s.reply(w, http.StatusOK, struct{}{}) })
	mux.HandleFunc("GET /readyz", s.ready)
	mux.HandleFunc("GET /api/status", func(w http.ResponseWriter, _ *http.Request) { s.reply(w, http.StatusOK, s.Status()) })
	mux.HandleFunc("POST /api/savepoint", s.savepoint)
	return mux
}

func (s *Server) ready(w http.ResponseWriter, _ *http.Request) {
	status := s.Status()
	switch {
	case status.Running:
		s.reply(w, http.StatusOK, struct{}{})
	case status.Failure != "":
		s.reply(w, http.StatusServiceUnavailable, failed{status.Failure})
	default:
		s.reply(w, http.StatusServiceUnavailable, failed{"the pipeline has not begun to run"})
	}
}

func (s *Server) savepoint(w http.ResponseWriter, r *http.Request) {
	if s.config.Token == "" {
		s.reply(w, http.StatusForbidden, failed{"set http.token to allow savepoints"})
		return
	}
	// Hashes have one length, so the comparison's time says nothing of the token.
	got, want := sha256.Sum256([]byte(r.Header.Get("Authorization"))), sha256.Sum256([]byte("Bearer "+s.config.Token))
	if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
		s.reply(w, http.StatusUnauthorized, failed{"the token is not that of http.token"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), savepointWait)
	defer cancel()
	answer := make(chan checkpoint.Checkpoint, 1)
	select {
	case s.savepoints <- answer:
	case <-ctx.Done():
		s.reply(w, http.StatusServiceUnavailable, failed{"the pipeline is not running; see /api/status"})
		return
	}
	select {
	case c := <-answer:
		s.reply(w, http.StatusOK, Savepoint{c.ID})
	case <-ctx.Done():
		s.reply(w, http.StatusServiceUnavailable, failed{"the checkpoint was not complete in time; it may still come: see the list of checkpoints"})
	}
}

func (s *Server) reply(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	if err := json.NewEncoder(w).Encode(v); err != nil {
		s.config.Log.Debug("answering a request", "error", err)
	}
}

// Serve answers requests on l until ctx is done, and closes l.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout,
		WriteTimeout: savepointWait + requestTimeout, IdleTimeout: requestTimeout, MaxHeaderBytes: maxHeader,
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve http.listen: %w", err)
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		err = server.Close() // what does not end in time is cut off
		if err != nil {
			return err
		}
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
