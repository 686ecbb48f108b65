package verify

import (
	"time"
)

// Kind is how a row differs.
type Kind string

// The kinds.
const (
	Missing Kind = "missing" // in the source and not in the target
	Extra   Kind = "extra"   // in the target and not in the source
	Changed Kind = "changed" // in both, with other values
)

// Difference is a row that differs. It names columns and no values: a report may go where rows may not.
type Difference struct {
	Kind    Kind     `json:"kind"`
	Key     []string `json:"key"`               // the key's texts; without a key, the hash of the row
	Columns []string `json:"columns,omitempty"` // of Changed: the source's names of the columns that differ
	Count   int64    `json:"count"`             // rows without a key that are written alike; otherwise 1
}

// TableReport is what was found out about one table.
type TableReport struct {
	Table       string       `json:"table"`
	Target      string       `json:"target"`
	Key         []string     `json:"key"`
	Rows        int64        `json:"rows"` // of the source, as they were counted
	Differences []Difference `json:"differences"`
	// More says that the table has more differences: no more than [Config.Limit] are looked for.
	More bool `json:"more"`
	// Unsettled is how many rows differed in each look and were changed at the source between them.
	Unsettled int `json:"unsettled"`
	// Problem is why the table as a whole was not compared; empty: it was.
	Problem string `json:"problem,omitempty"`
}

// Equal says whether nothing was found, and everything could be looked at.
func (t *TableReport) Equal() bool {
	return len(t.Differences) == 0 && !t.More && t.Unsettled == 0 && t.Problem == ""
}

// Progress is how far a comparison has come.
type Progress struct {
	Table    string // the one being read; empty: rows are being looked at again
	Rows     int64  // read at the source
	Total    int64  // about how many there are, by the source's statistics
	Suspects int    // rows that differed and are to be looked at again
	Elapsed  time.Duration
}

// Rate is the rows per second so far.
func (p Progress) Rate() float64 {
	if s := p.Elapsed.Seconds(); s > 0 {
		return float64(p.Rows) / s
	}
	return 0
}

// Left is about how long the rest takes; 0 if that is not known.
func (p Progress) Left() time.Duration {
	if rate := p.Rate(); rate > 0 && p.Total > p.Rows {
		return time.Duration(float64(p.Total-p.Rows) / rate * float64(time.Second))
	}
	return 0
}
