package main

import (
	"log/slog"
	"sync"

	"replicator/schema"
)

// alterations counts the values that schema.types.nul changed. It is safe for concurrent use.
type alterations struct {
	pipeline string
	log      *slog.Logger

	mu   sync.Mutex
	seen map[alteration]int64
}

type alteration struct {
	table  schema.Name
	column string
}

// count notes one value. It logs the first of a column, and then each time that their number has grown tenfold: the log
// says that values are altered and how many, and is not flooded.
func (a *alterations) count(table schema.Name, column string) {
	key := alteration{table, column}
	a.mu.Lock()
	a.seen[key]++
	n := a.seen[key]
	a.mu.Unlock()
	if powerOfTen(n) {
		a.log.Warn("NUL characters of a text were removed or replaced, as schema.types.nul says",
			"pipeline", a.pipeline, "table", table.String(), "column", column, "values", n)
	}
}

func powerOfTen(n int64) bool {
	for n >= 10 && n%10 == 0 {
		n /= 10
	}
	return n == 1
}
