package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// A history of lists tells more than one of registers: who reads a list sees in which order it came to be, and with it which transactions
// came before which. What isolation forbids is then a cycle (Adya's phenomena, in the way of Kingsbury and Alvaro's Elle).

// listAppend puts a value, which nothing else appends anywhere, at the end of a list.
type listAppend struct{ key, value int }

// listTxn is a transaction: what it read before it appended anything, and what it appended, in its order. Those of a process come one after
// the other.
type listTxn struct {
	process int
	reads   map[int][]int
	appends []listAppend
	aborted bool
}

// listWrite is who appended a value.
type listWrite struct {
	txn, key int
	last     bool // of what the transaction appends to the list
}

// Kinds of edges between transactions.
const (
	writeWrite = 1 << iota // one appended after what the other has appended
	writeRead              // one read what the other has appended last
	readWrite              // one did not see what the other appended next
	inOrder                // of one process
)

type listEdge struct{ from, to, kind int }

// listJudge looks for what no history of whole transactions, one after the other, shows.
type listJudge struct {
	txns   []listTxn
	writes map[int]listWrite // by value
	order  map[int][]int     // of each list, as the longest read shows it
	edges  map[listEdge]bool
	next   [][]listEdge // of each transaction
	found  map[string]string
}

// judgeLists returns what is wrong with a history: an example for each phenomenon.
//
//	garbage, duplicate, order   a value from nowhere; one that is there twice; two reads of a list that cannot both be
//	G1a, G1b                    what was rolled back was read; or what was not the transaction's last word
//	G0, G1c, G-single, G2       a cycle of writes; with reads; with one read that missed something (fractured reads, lost
//	                            updates); with several
//	G0-process, ...             where nothing else is wrong: the same with the order within each process
func judgeLists(txns []listTxn) map[string]string {
	j := &listJudge{
		txns: txns, writes: map[int]listWrite{}, order: map[int][]int{}, edges: map[listEdge]bool{}, next: make([][]listEdge, len(txns)), found: map[string]string{},
	}
	for n, t := range txns {
		for i, a := range t.appends {
			later := slices.ContainsFunc(t.appends[i+1:], func(b listAppend) bool { return b.key == a.key })
			j.writes[a.value] = listWrite{n, a.key, !later}
		}
	}
	for n, t := range txns {
		for key, list := range t.reads {
			j.read(n, key, list)
		}
	}
	j.depend()
	if j.cycles(0); len(j.found) == 0 {
		j.cycles(inOrder)
	}
	return j.found
}

func (j *listJudge) note(kind, text string, args ...any) {
	if j.found[kind] == "" {
		j.found[kind] = fmt.Sprintf(text, args...)
	}
}

// read looks at one list by itself, and remembers the longest.
func (j *listJudge) read(n, key int, list []int) {
	seen := map[int]bool{}
	for i, value := range list {
		w, known := j.writes[value]
		switch {
		case !known || w.key != key:
			j.note("garbage", "transaction %d read %d in list %d, which nobody appended there", n, value, key)
		case seen[value]:
			j.note("duplicate", "transaction %d read %d twice in list %d", n, value, key)
		case j.txns[w.txn].aborted:
			j.note("G1a", "transaction %d read %d in list %d, of transaction %d, which was rolled back", n, value, key, w.txn)
		case i == len(list)-1 && !w.last && w.txn != n:
			j.note("G1b", "transaction %d read list %d up to %d, after which transaction %d has appended more", n, key, value, w.txn)
		}
		seen[value] = true
	}
	long, short := j.order[key], list
	if len(short) > len(long) {
		long, short = short, long
	}
	if !slices.Equal(long[:len(short)], short) {
		j.note("order", "list %d was read as %v and as %v", key, short, long)
	}
	j.order[key] = long
}

// depend finds which transaction depends on which.
func (j *listJudge) depend() {
	for _, list := range j.order {
		for i := 1; i < len(list); i++ {
			j.edge(j.writer(list[i-1]), j.writer(list[i]), writeWrite)
		}
	}
	last := map[int]int{}
	for n, t := range j.txns {
		if t.aborted {
			continue
		}
		for key, list := range t.reads {
			if len(list) > 0 {
				j.edge(j.writer(list[len(list)-1]), n, writeRead)
			}
			if len(list) < len(j.order[key]) {
				j.edge(n, j.writer(j.order[key][len(list)]), readWrite)
			}
		}
		if before, is := last[t.process]; is {
			j.edge(before, n, inOrder)
		}
		last[t.process] = n
	}
}

// writer is who appended a value; -1: nobody.
func (j *listJudge) writer(value int) int {
	w, known := j.writes[value]
	if !known {
		return -1
	}
	return w.txn
}

func (j *listJudge) edge(from, to, kind int) {
	e := listEdge{from, to, kind}
	if from < 0 || to < 0 || from == to || j.edges[e] {
		return
	}
	j.edges[e] = true
	j.next[from] = append(j.next[from], e)
}

// cycles looks for the phenomena that are cycles, the gravest first. An edge of the kind that makes it what it is must be in it.
func (j *listJudge) cycles(order int) {
	suffix := ""
	if order != 0 {
		suffix = "-process"
	}
	for _, p := range []struct {
		name          string
		with, through int
	}{
		{"G0", writeWrite, writeWrite},
		{"G1c", writeRead, writeWrite | writeRead},
		{"G-single", readWrite, writeWrite | writeRead},
		{"G2", readWrite, writeWrite | writeRead | readWrite},
	} {
		if p.name == "G2" && j.found["G-single"+suffix] != "" {
			continue // it has more edges than that one, and the same reason
		}
		for e := range j.edges {
			if e.kind != p.with {
				continue
			}
			if path := j.path(e.to, e.from, p.through|order); path != nil {
				j.note(p.name+suffix, "%s", j.explained(append([]listEdge{e}, path...)))
				break
			}
		}
	}
}

// path returns a shortest way over edges of some kinds; nil: there is none.
func (j *listJudge) path(from, to, kinds int) []listEdge {
	came := map[int]listEdge{}
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		for _, e := range j.next[queue[0]] {
			if _, was := came[e.to]; was || e.kind&kinds == 0 {
				continue
			}
			came[e.to] = e
			if e.to != to {
				queue = append(queue, e.to)
				continue
			}
			path := []listEdge{e}
			for e.from != from {
				e = came[e.from]
				path = append(path, e)
			}
			slices.Reverse(path)
			return path
		}
	}
	return nil
}

func (j *listJudge) explained(cycle []listEdge) string {
	names := map[int]string{writeWrite: "was followed in a list by", writeRead: "was read by", readWrite: "did not see what was appended by", inOrder: "came, in its process, before"}
	var out []string
	for _, e := range cycle {
		out = append(out, fmt.Sprintf("%d %s %d", e.from, names[e.kind], e.to))
	}
	return strings.Join(out, "; ")
}

// TestJudgeLists: the judge finds each phenomenon in a history that has it, and nothing in one that has none.
func TestJudgeLists(t *testing.T) {
	t.Parallel()
	const x, y = 1, 2
	write := func(process int, appends ...listAppend) listTxn { return listTxn{process: process, appends: appends} }
	read := func(process int, lists map[int][]int) listTxn { return listTxn{process: process, reads: lists} }
	both := write(0, listAppend{x, 1}, listAppend{y, 2})
	for name, c := range map[string]struct {
		txns []listTxn
		want []string
	}{
		"one after the other": {[]listTxn{
			both, write(0, listAppend{x, 3}), read(1, map[int][]int{x: {}, y: {}}), read(1, map[int][]int{x: {1}, y: {2}}), read(1, map[int][]int{x: {1, 3}, y: {2}}),
		}, nil},
		"twice in one":       {[]listTxn{write(0, listAppend{x, 1}, listAppend{x, 2}), read(1, map[int][]int{x: {1, 2}})}, nil},
		"from nowhere":       {[]listTxn{both, read(1, map[int][]int{x: {1, 9}, y: {2}})}, []string{"garbage"}},
		"of another list":    {[]listTxn{both, read(1, map[int][]int{x: {1, 2}, y: {2}})}, []string{"garbage"}},
		"repeated":           {[]listTxn{both, read(1, map[int][]int{x: {1, 1}, y: {2}})}, []string{"duplicate"}},
		"rolled back":        {[]listTxn{{appends: []listAppend{{x, 1}}, aborted: true}, read(1, map[int][]int{x: {1}})}, []string{"G1a"}},
		"not its last word":  {[]listTxn{write(0, listAppend{x, 1}, listAppend{x, 2}), read(1, map[int][]int{x: {1}}), read(1, map[int][]int{x: {1, 2}})}, []string{"G-single", "G1b"}},
		"two orders":         {[]listTxn{both, write(2, listAppend{x, 3}), read(1, map[int][]int{x: {1, 3}}), read(3, map[int][]int{x: {3}})}, []string{"G-single", "order"}},
		"late in a list":     {[]listTxn{both, write(0, listAppend{x, 3}), read(1, map[int][]int{x: {3}, y: {2}}), read(1, map[int][]int{x: {1, 3}, y: {2}})}, []string{"G-single", "order"}},
		"writes cross":       {[]listTxn{both, write(2, listAppend{x, 3}, listAppend{y, 4}), read(1, map[int][]int{x: {1, 3}, y: {4, 2}})}, []string{"G0"}},
		"each reads another": {[]listTxn{{process: 0, appends: []listAppend{{x, 1}}, reads: map[int][]int{y: {2}}}, {process: 1, appends: []listAppend{{y, 2}}, reads: map[int][]int{x: {1}}}}, []string{"G1c"}},
		"fractured":          {[]listTxn{both, read(1, map[int][]int{x: {1}, y: {}}), read(1, map[int][]int{x: {1}, y: {2}})}, []string{"G-single"}},
		"lost update": {[]listTxn{
			{process: 0, appends: []listAppend{{x, 1}}, reads: map[int][]int{x: {}}}, {process: 1, appends: []listAppend{{x, 2}}, reads: map[int][]int{x: {}}}, read(2, map[int][]int{x: {1, 2}}),
		}, []string{"G-single"}},
		"write skew": {[]listTxn{
			{process: 0, appends: []listAppend{{x, 1}}, reads: map[int][]int{y: {}}}, {process: 1, appends: []listAppend{{y, 2}}, reads: map[int][]int{x: {}}}, read(2, map[int][]int{x: {1}, y: {2}}),
		}, []string{"G2"}},
		"a later one first": {[]listTxn{write(0, listAppend{x, 1}), write(0, listAppend{y, 2}), read(1, map[int][]int{x: {}, y: {2}}), read(1, map[int][]int{x: {1}, y: {2}})}, []string{"G-single-process"}},
		"back":              {[]listTxn{both, read(1, map[int][]int{x: {1}, y: {2}}), read(1, map[int][]int{x: {}, y: {}})}, []string{"G-single-process"}},
	} {
		got := judgeLists(c.txns)
		if kinds := slices.Sorted(maps.Keys(got)); !slices.Equal(kinds, c.want) {
			t.Errorf("%s: found %v, want %v", name, got, c.want)
		}
	}
}
