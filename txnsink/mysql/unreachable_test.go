package mysql

import (
	"net"
	"testing"

	"replicator/txnsink"
)

// TestWhereNothingListensIsSaid with what to look at; it may pass.
func TestWhereNothingListensIsSaid(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = Open(t.Context(), Config{URL: "mysql://u:secret@" + address + "/d", Pipeline: "p"})
	want := "connect to the target: " + address + ": connection refused: is the server running, and are host and port of the URL its own?"
	if err == nil || err.Error() != want || txnsink.Permanent(err) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}
