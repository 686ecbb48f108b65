package ops

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"replicator/checkpoint"
)

// Bounds of what a client may hold up.
const (
	headerTimeout   = 5 * time.Second
	requestTimeout  = 30 * time.Second
	shutdownTimeout = 2 * time.Second
	savepointWait   = 60 * time.Second
	profileWait     = 120 * time.Second
	maxHeader       = 64 << 10
	maxScrapes      = 4 // at a time
)

// The page, and the description of the answers.
//
//go:embed web
var web embed.FS

// policy is what the page may load: its own files. It has no inline script and no inline style.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// Savepoint is what /api/savepoint returns.
type Savepoint struct {
	Checkpoint int64 `json:"checkpoint"`
}

// failed is what a request that fails returns.
type failed struct {
	Error string `json:"error"`
}

// Handler answers the requests that the package's text lists.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, answer func() (int, any)) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			code, v := answer()
			s.reply(w, code, v)
		})
	}
	get("/healthz", func() (int, any) { return http.StatusOK, struct{}{} })
	get("/readyz", s.ready)
	get("/api/status", func() (int, any) { return http.StatusOK, s.Status() })
	get("/api/history", func() (int, any) { return http.StatusOK, s.History() })
	get("/api/config", func() (int, any) { return http.StatusOK, append([]Setting{}, s.config.Settings...) })
	mux.HandleFunc("GET /api/events", s.stream)
	mux.HandleFunc("POST /api/savepoint", s.guarded(s.savepoint))
	mux.HandleFunc("POST /api/pause", s.guarded(s.pause(true)))
	mux.HandleFunc("POST /api/resume", s.guarded(s.pause(false)))
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.metrics.registry, promhttp.HandlerOpts{MaxRequestsInFlight: maxScrapes}))
	for path, file := range map[string]string{
		"/{$}": "index.html", "/style.css": "style.css", "/app.js": "app.js", "/draw.js": "draw.js", "/icon.svg": "icon.svg", "/api/openapi.json": "openapi.json",
	} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Cache-Control", "no-cache")
			http.ServeFileFS(w, r, web, "web/"+file)
		})
	}
	if s.config.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		// Not cmdline: what --set gives may be a password.
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return secured(mux)
}

// secured says to browsers what the answers may do.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		next.ServeHTTP(w, r)
	})
}

func (s *Server) ready() (int, any) {
	status := s.Status()
	switch status.State {
	case Running, Paused, Standby:
		return http.StatusOK, struct{}{}
	case Starting:
		return http.StatusServiceUnavailable, failed{"the pipeline has not begun to run"}
	case Stalled:
		return http.StatusServiceUnavailable, failed{fmt.Sprintf("no checkpoint was complete for %.0f s, and the target is behind: look for locks that others hold in it", status.CheckpointAgeSeconds)}
	}
	if status.Failure == "" {
		return http.StatusServiceUnavailable, failed{"the pipeline is " + string(status.State)}
	}
	return http.StatusServiceUnavailable, failed{status.Failure}
}

// guarded lets a request through that has the token.
func (s *Server) guarded(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if s.config.Token == "" {
			s.reply(w, http.StatusForbidden, failed{"set http.token to allow actions such as savepoints"})
			return
		}
		// Hashes have one length, so the comparison's time says nothing of the token.
		got, want := sha256.Sum256([]byte(r.Header.Get("Authorization"))), sha256.Sum256([]byte("Bearer "+s.config.Token))
		if subtle.ConstantTimeCompare(got[:], want[:]) != 1 {
			s.reply(w, http.StatusUnauthorized, failed{"the token is not that of http.token"})
			return
		}
		next(w, r)
	}
}

func (s *Server) pause(paused bool) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		s.gate.Pause(paused)
		s.config.Log.Info("asked over HTTP", "pipeline", s.config.Pipeline, "paused", paused)
		s.reply(w, http.StatusOK, struct {
			Paused bool `json:"paused"`
		}{paused})
	}
}

func (s *Server) savepoint(w http.ResponseWriter, r *http.Request) {
	if s.config.Cluster {
		s.reply(w, http.StatusConflict, failed{"a cluster has no checkpoint of the whole pipeline, and so no savepoints"})
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
	sampling, stopSampling := context.WithCancel(ctx)
	sampled := make(chan struct{})
	go func() { defer close(sampled); s.sampleUntil(sampling) }()
	defer func() { stopSampling(); <-sampled }()
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout,
		WriteTimeout: max(savepointWait, profileWait) + requestTimeout, IdleTimeout: requestTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx }, // its end ends the streams
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serve http.listen: %w", err)
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(last); err != nil {
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
