package ops

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestEveryAnswerHasSecurityHeaders, also those of what is not there, not allowed, or an error.
func TestEveryAnswerHasSecurityHeaders(t *testing.T) {
	t.Parallel()
	s := New(Config{Token: "sesame", Pprof: true})
	for _, request := range []string{"GET /", "GET /nothing", "GET /metrics", "GET /api/status", "GET /debug/pprof/", "POST /api/pause", "DELETE /api/status", "GET /../etc/passwd"} {
		method, path, _ := strings.Cut(request, " ")
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
		for header, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin", "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
			"Access-Control-Allow-Origin": "", "Set-Cookie": "",
		} {
			if got := w.Header().Get(header); got != want {
				t.Errorf("%s: %s is %q, want %q", request, header, got, want)
			}
		}
	}
}

// TestProfilesDoNotShowTheCommandLine, on which --set may give a password.
func TestProfilesDoNotShowTheCommandLine(t *testing.T) {
	t.Parallel()
	if code, body := request(t, New(Config{Pprof: true}), "GET", "/debug/pprof/cmdline", ""); code != http.StatusNotFound {
		t.Errorf("got %d %s", code, body)
	}
}

// TestALargeRequestIsNotRead: neither its header nor its body.
func TestALargeRequestIsNotRead(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- New(Config{Token: "sesame"}).Serve(ctx, l) }()
	for name, text := range map[string]string{
		"431": "GET /healthz HTTP/1.1\r\nHost: h\r\nX-Long: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n",
		// The body never comes, and nobody waits for it.
		"401": fmt.Sprintf("POST /api/pause HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n", 1<<40),
	} {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, text); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := answer.Body.Close(); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(answer.Status, name) {
			t.Errorf("got %s, want %s", answer.Status, name)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
