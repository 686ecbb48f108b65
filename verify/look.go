package verify

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// suspect is a scope with rows that differed when it was last looked at.
type suspect struct {
	table *table
	scope scope
	seen  time.Time
	rows  map[string]mismatch
}

// mismatch is a row that differed in a look. source and target are what the row was on either side, as a hash; zero: it was not there.
type mismatch struct {
	Difference
	source, target [sha256.Size]byte
}

// compareRows fetches the rows of a scope from both sides and returns those that differ.
func (t *table) compareRows(ctx context.Context, at scope) (map[string]mismatch, error) {
	source, target, err := both(ctx, func(ctx context.Context, v *view) ([]row, error) { return t.rows(ctx, v, at, fetchRows) }, t.comparison)
	if err != nil {
		return nil, err
	}
	if len(t.key) == 0 {
		return t.compareBags(source, target), nil
	}
	found := map[string]mismatch{}
	have := make(map[string]row, len(target))
	for _, r := range target {
		have[identity(r.key)] = r
	}
	for _, s := range source {
		id := identity(s.key)
		other, ok := have[id]
		delete(have, id)
		if !ok {
			found[id] = mismatch{Difference: Difference{Kind: Missing, Key: s.key, Count: 1}, source: s.print()}
		} else if columns := t.unequal(s, other); len(columns) > 0 {
			found[id] = mismatch{Difference: Difference{Kind: Changed, Key: s.key, Columns: columns, Count: 1}, source: s.print(), target: other.print()}
		}
	}
	if t.extra {
		return found, nil
	}
	for id, r := range have {
		found[id] = mismatch{Difference: Difference{Kind: Extra, Key: r.key, Count: 1}, target: r.print()}
	}
	return found, nil
}

// unequal names the columns in which two rows differ.
func (t *table) unequal(a, b row) []string {
	var out []string
	for i, c := range t.columns {
		x, y := a.values[i], b.values[i]
		if x == nil && y == nil || x != nil && y != nil && c.form.equal(*x, *y) {
			continue
		}
		out = append(out, c.name)
	}
	return out
}

// compareBags compares rows that have no key: how often each is there.
func (t *table) compareBags(source, target []row) map[string]mismatch {
	found := map[string]mismatch{}
	for _, s := range source {
		for i := range target {
			if s.count > 0 && target[i].count > 0 && len(t.unequal(s, target[i])) == 0 {
				n := min(s.count, target[i].count)
				s.count -= n
				target[i].count -= n
			}
		}
		if s.count > 0 {
			print := s.print()
			id := fmt.Sprintf("%x", print[:8])
			found[id] = mismatch{Difference: Difference{Kind: Missing, Key: []string{id}, Count: s.count}, source: print}
		}
	}
	for _, r := range target {
		if r.count > 0 && !t.extra {
			print := r.print()
			id := fmt.Sprintf("%x", print[:8])
			found[id] = mismatch{Difference: Difference{Kind: Extra, Key: []string{id}, Count: r.count}, target: print}
		}
	}
	return found
}

// identity is a key as one text: each part with its length, so that no two keys are alike.
func identity(key []string) string {
	var b strings.Builder
	for _, k := range key {
		fmt.Fprintf(&b, "%d:%s", len(k), k)
	}
	return b.String()
}

// print is a hash of a row and its count: rows that have the same are the same.
func (r row) print() [sha256.Size]byte {
	h := sha256.New()
	fmt.Fprintf(h, "%d", r.count)
	for _, v := range r.values {
		if v == nil {
			fmt.Fprint(h, "N")
		} else {
			fmt.Fprintf(h, "%d:%s", len(*v), *v)
		}
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// settle looks at all suspects again, until each is equal, is a difference, or has changed between any two looks.
func (r *run) settle(ctx context.Context) error {
	r.mu.Lock()
	list := r.suspects
	r.suspects, r.waiting = nil, 0
	r.progress.Table = ""
	r.mu.Unlock()
	for looks := 2; len(list) > 0; looks++ {
		var again []suspect
		for _, s := range list {
			if err := sleep(ctx, time.Until(s.seen.Add(r.Lag))); err != nil {
				return err
			}
			if s.table.full() {
				continue
			}
			now, err := s.table.compareRows(ctx, s.scope)
			if err != nil {
				return fmt.Errorf("table %s: %w", s.table.name, err)
			}
			if s = r.judge(s, now, looks >= r.Looks); len(s.rows) > 0 {
				again = append(again, s)
			}
		}
		list = again
	}
	return nil
}

// judge compares a suspect with what it is now, and returns it with the rows that are to be looked at once more: those that
// the source or the pipeline has changed in between. last says that there is no further look.
func (r *run) judge(s suspect, now map[string]mismatch, last bool) suspect {
	r.mu.Lock()
	defer r.mu.Unlock()
	report := s.table.report
	left := map[string]mismatch{}
	for _, id := range slices.Sorted(maps.Keys(s.rows)) {
		was := s.rows[id]
		is, differs := now[id]
		switch {
		case !differs: // it was equal now
		case is.source == was.source && (last || is.target == was.target):
			if len(report.Differences) >= r.Limit {
				report.More = true
				continue
			}
			report.Differences = append(report.Differences, is.Difference)
		case last:
			report.Unsettled++
		default:
			left[id] = is
		}
	}
	s.rows, s.seen = left, time.Now()
	return s
}
