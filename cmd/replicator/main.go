// Command replicator keeps a database in step with another one, through Debezium's change events in Kafka.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signals(context.Background())
	code := Main(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// signals returns a context that the first SIGINT or SIGTERM ends. The second one ends the process at once, with the
// exit code that a shell gives to that signal: whatever it interrupts, the next start recovers.
func signals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(parent)
	received := make(chan os.Signal, 2)
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM)
	go func() { // ends with the process: a second signal may come until then
		<-received
		cancel()
		code := 128
		if n, ok := (<-received).(syscall.Signal); ok {
			code += int(n)
		}
		os.Exit(code)
	}()
	return ctx, cancel
}
