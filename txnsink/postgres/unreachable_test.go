package postgres

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"

	"replicator/txnsink"
)

// refusing is the address of a server that says once a connection that it has no TLS, and is gone.
func refusing(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				ended <- nil // closed, by the end of the test
				return
			}
			_, err = conn.Read(make([]byte, 8)) // an SSLRequest, or how a session in plain text begins
			if err == nil {
				_, err = io.WriteString(conn, "N")
			}
			if err := errors.Join(err, conn.Close()); err != nil {
				ended <- err
				return
			}
		}
	}()
	t.Cleanup(func() {
		if err := errors.Join(l.Close(), <-ended); err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String()
}

// TestAServerThatDiesWhileItIsAskedIsTriedAgain: without an sslmode it is asked in plain text next. That it is gone then is no matter of
// TLS, and passes; with an sslmode it is one, and does not.
func TestAServerThatDiesWhileItIsAskedIsTriedAgain(t *testing.T) {
	t.Parallel()
	url := "postgres://u:secret@" + refusing(t) + "/d"
	_, err := Open(t.Context(), Config{URL: url, Pipeline: "p"})
	if err == nil || txnsink.Permanent(err) || strings.Contains(err.Error(), "\n") || !strings.HasSuffix(err.Error(), ": is it PostgreSQL that answers there?") {
		t.Errorf("without an sslmode: got %v, want one line, of an error that may pass", err)
	}
	_, err = Open(t.Context(), Config{URL: url + "?sslmode=require", Pipeline: "p"})
	if err == nil || !txnsink.Permanent(err) || !strings.Contains(err.Error(), "tls_configuration: ") {
		t.Errorf("sslmode=require: got %v, want tls_configuration", err)
	}
}

// TestWhereNothingListensIsSaidOnce although the driver tries twice, with TLS and without.
func TestWhereNothingListensIsSaidOnce(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Config{URL: "postgres://u:secret@" + address + "/d", Pipeline: "p"})
	want := "connect to the target: " + address + ": connection refused: is the server running, and are host and port of the URL its own?"
	if err == nil || err.Error() != want || txnsink.Permanent(err) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestAttemptsAreShort: once each, with the name that was given and the address that it led to.
func TestAttemptsAreShort(t *testing.T) {
	t.Parallel()
	const head = "failed to connect to `user=u database=d`:"
	for text, want := range map[string]string{
		head + " 127.0.0.1:1 (127.0.0.1): dial error: dial tcp 127.0.0.1:1: connect: connection refused": "127.0.0.1:1: connection refused",
		head + "\n\t127.0.0.1:1 (localhost): dial error: dial tcp 127.0.0.1:1: connect: connection refused" +
			"\n\t127.0.0.1:1 (localhost): dial error: dial tcp 127.0.0.1:1: connect: connection refused" +
			"\n\t[::1]:1 (localhost): dial error: dial tcp [::1]:1: connect: network is unreachable": "localhost (127.0.0.1:1): connection refused; localhost ([::1]:1): network is unreachable",
		head + " hostname resolving error: lookup db.example on 10.0.0.1:53: no such host":                                                      "db.example: no such host",
		head + " hostname resolving error: lookup db.example: no such host":                                                                     "db.example: no such host",
		head + " /run/pg/.s.PGSQL.5432 (/run/pg): dial error: dial unix /run/pg/.s.PGSQL.5432: connect: no such file or directory":              "/run/pg/.s.PGSQL.5432: no such file or directory",
		head + " 10.0.0.1:5432 (db.example): tls error: server refused TLS connection":                                                          "db.example (10.0.0.1:5432): server refused TLS connection",
		head + " 10.0.0.1:5432 (10.0.0.1): dial error: timeout: context deadline exceeded":                                                      "10.0.0.1:5432: no answer in time",
		head + "\n\thostname resolving error: lookup db.example on 10.0.0.1:53: no such host\n\tlookup db.example on 10.0.0.1:53: no such host": "db.example: no such host",
		"cannot parse the URL": "cannot parse the URL",
	} {
		if got := strings.Join(attempts(errors.New(text)), "; "); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", text, got, want)
		}
	}
}
