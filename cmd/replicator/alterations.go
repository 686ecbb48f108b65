package main

import (
	"log/slog"
	"sync"

	"replicator/schema"
)

// The texts for values that are stored otherwise than they were sent.
const (
	nulAltered = "NUL characters of a text were removed or replaced, as schema.types.nul says"
	nanosCut   = "nanoseconds of times were cut off: the column holds microseconds"
)

// maxNoted bounds what alterations remembers; of more columns and names it says nothing.
const maxNoted = 10_000

// alterations counts the values that are stored otherwise than they were sent, and notes the names of types that are
// not known. It is safe for concurrent use.
type alterations struct {
	pipeline string
	log      *slog.Logger

	mu   sync.Mutex
	seen map[alteration]int64
}

type alteration struct {
	table        schema.Name
	column, what string
}

// counter returns what counts values for one reason. It logs the first of a column, and then each time that their number
// has grown tenfold: the log says that values are altered and how many, and is not flooded.
func (a *alterations) counter(what string) func(table schema.Name, column string) {
	return func(table schema.Name, column string) {
		if n := a.count(alteration{table, column, what}); powerOfTen(n) {
			a.log.Warn(what, "pipeline", a.pipeline, "table", table.String(), "column", column, "values", n)
		}
	}
}

// unknown logs once for each column that its type's name is not known.
func (a *alterations) unknown(table schema.Name, column, name string) {
	if a.count(alteration{table, column, "the name " + name}) == 1 {
		a.log.Warn("a semantic type is not known; the column's values are taken by their primitive type",
			"pipeline", a.pipeline, "table", table.String(), "column", column, "type", name)
	}
}

// unlabelled logs once for each column that it is text and no enum type.
func (a *alterations) unlabelled(table schema.Name, column, why string) {
	if a.count(alteration{table, column, "no enum type"}) == 1 {
		a.log.Warn("a column of ENUM becomes text although schema.types.enum is enum",
			"pipeline", a.pipeline, "table", table.String(), "column", column, "because", why)
	}
}

// count returns how often it was called for k; 0 if it is not remembered.
func (a *alterations) count(k alteration) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.seen[k]; !ok && len(a.seen) >= maxNoted {
		return 0
	}
	a.seen[k]++
	return a.seen[k]
}

func powerOfTen(n int64) bool {
	for n >= 10 && n%10 == 0 {
		n /= 10
	}
	return n == 1
}
