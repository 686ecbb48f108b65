package main

import (
	"fmt"
	"net"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// nowhere is an address at which nothing listens.
func nowhere(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// TestWhatCannotBeReachedIsSaidOnce: where nothing listens, which is what it looks like, and what to look at.
func TestWhatCannotBeReachedIsSaidOnce(t *testing.T) {
	t.Parallel()
	const down = "A: connection refused: is the server running, and are host and port of the URL its own?"
	at := nowhere(t)
	for _, c := range []struct{ key, value, check, want string }{
		{"source.brokers", "[A]", "brokers", "no broker can be used: broker A: nothing listens there; is the broker running, and is this its address and port?"},
		{"target.url", "postgres://u:secret@A/d", "target", "connect to the target: " + down},
		{"target.url", "postgres://u:secret@A/d?sslmode=require", "target", "connect to the target: " + down},
		{"target.url", "mysql://u:secret@A/d", "target", "connect to the target: " + down},
		{"checkpoint.store", "postgres://u:secret@A/d", "store", down},
		{"checkpoint.store", "mariadb://u:secret@A/d", "store", down},
	} {
		file := configFile(t, fmt.Sprintf("pipeline: shop\nsource: {brokers: ['%s'], topics: [a]}\ntarget: {url: 'postgres://%s/d'}\n", at, at))
		list := facts[[]finding](t, exitPreflight, "check", "--config", file, "--set", c.key+"="+strings.ReplaceAll(c.value, "A", at))
		i := slices.IndexFunc(list, func(f finding) bool { return f.Check == c.check })
		want := finding{levelError, c.check, "unreachable", strings.ReplaceAll(c.want, "A", at), ""}
		if i < 0 || list[i] != want {
			t.Errorf("%s=%s: got %+v, want %+v", c.key, c.value, list, want)
		}
	}
}

// TestAdviceIsGivenOnce for a name that does not resolve, however the system says so.
func TestAdviceIsGivenOnce(t *testing.T) {
	t.Parallel()
	at := nowhere(t)
	for key, value := range map[string]string{"source.brokers": "[nowhere.invalid:9092]", "target.url": "postgres://u:secret@nowhere.invalid/d", "checkpoint.store": "mysql://u:secret@nowhere.invalid/d"} {
		file := configFile(t, fmt.Sprintf("pipeline: shop\nsource: {brokers: ['%s'], topics: [a]}\ntarget: {url: 'postgres://%s/d'}\n", at, at))
		_, stdout, _ := call(t, "check", "--config", file, "--set", key+"="+value)
		line := regexp.MustCompile(`(?m)^.*nowhere\.invalid.*$`).FindString(stdout)
		if strings.Count(line, "nowhere.invalid") != 1 || strings.Count(line, "see to ") != 1 {
			t.Errorf("%s=%s: %q, want the name once and one advice", key, value, line)
		}
	}
}

// TestRedactLeavesOurOwnExamples, in which the password is a variable's.
func TestRedactLeavesOurOwnExamples(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"as in mysql://user:${MYSQL_PASSWORD}@host:3306/":  "as in mysql://user:${MYSQL_PASSWORD}@host:3306/",
		"mysql://user:${MYSQL_PASSWORD}@b@host:3306/":      "mysql://user:***@host:3306/",
		"postgres://u:$ecret@h/d":                          "postgres://u:***@h/d",
		"postgres://u:${A}@h/d and postgres://u:secret@h/": "postgres://u:${A}@h/d and postgres://u:***@h/",
	} {
		if got := redact(text); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}
