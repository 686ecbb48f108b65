package ops

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"replicator/checkpoint"
)

// request sends one and returns the code and the body.
func request(t *testing.T, s *Server, method, path, token string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, nil)
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w.Code, strings.TrimSpace(w.Body.String())
}

func TestReadinessFollowsThePipeline(t *testing.T) {
	t.Parallel()
	s := New(Config{Pipeline: "p"})
	want := func(what, path string, code int, body string) {
		t.Helper()
		if gotCode, got := request(t, s, "GET", path, ""); gotCode != code || got != body {
			t.Errorf("%s: %s: got %d %s, want %d %s", what, path, gotCode, got, code, body)
		}
	}
	want("before", "/healthz", 200, "{}")
	want("before", "/readyz", 503, `{"error":"the pipeline has not begun to run"}`)
	s.progressed(checkpoint.Progress{})
	want("running", "/readyz", 200, "{}")
	s.failed(errTest, "the target went away")
	want("failed", "/healthz", 200, "{}")
	want("failed", "/readyz", 503, `{"error":"the target went away"}`)
	s.progressed(checkpoint.Progress{})
	want("again", "/readyz", 200, "{}")
	want("again", "/api/nothing", 404, "404 page not found")
}

func TestSavepointNeedsTheToken(t *testing.T) {
	t.Parallel()
	closed := New(Config{})
	if code, body := request(t, closed, "POST", "/api/savepoint", "any"); code != 403 || !strings.Contains(body, "http.token") {
		t.Errorf("without a token configured: got %d %s", code, body)
	}
	s := New(Config{Token: "sesame"})
	for _, token := range []string{"", "sesam", "sesame2"} {
		if code, body := request(t, s, "POST", "/api/savepoint", token); code != 401 || strings.Contains(body, "sesame") {
			t.Errorf("token %q: got %d %s", token, code, body)
		}
	}
	if code, body := request(t, s, "POST", "/api/pause", "sesam"); code != 401 || s.gate.Paused() {
		t.Errorf("pause with a wrong token: got %d %s", code, body)
	}
	if code, body := request(t, s, "POST", "/api/pause", "sesame"); code != 200 || body != `{"paused":true}` || !s.gate.Paused() {
		t.Errorf("pause: got %d %s", code, body)
	}
	if code, body := request(t, s, "POST", "/api/resume", "sesame"); code != 200 || body != `{"paused":false}` || s.gate.Paused() {
		t.Errorf("resume: got %d %s", code, body)
	}
	if code, _ := request(t, s, "GET", "/api/savepoint", "sesame"); code != 405 {
		t.Errorf("GET: got %d", code)
	}
	go func() { (<-s.savepoints) <- checkpoint.Checkpoint{ID: 42} }()
	if code, body := request(t, s, "POST", "/api/savepoint", "sesame"); code != 200 || body != `{"checkpoint":42}` {
		t.Errorf("got %d %s", code, body)
	}
}

func TestServeEndsWithItsContext(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- New(Config{}).Serve(ctx, l) }()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+l.Addr().String()+"/healthz", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	_, err = io.Copy(io.Discard, answer.Body)
	if err := errors.Join(err, answer.Body.Close()); err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("got %d, %v", answer.StatusCode, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("Serve = %v", err)
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Errorf("it listens still: %v", c.Close())
	}
}
