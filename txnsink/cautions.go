package txnsink

import "replicator/sqlgen"

// The bounds of cautions: how many statements are remembered, and how long one is left out.
const (
	maxCautions = 256
	maxCaution  = 256
)

// Cautions are a session's statements that did not do, by SQL text (see sqlgen.Statement.Instead). A failed one costs the server the
// work twice, and what makes it fail comes in runs, as when a snapshot is taken again: so it is not tried again for a while, counted in
// uses, that each failure in a row doubles. They belong to one goroutine. The zero value has none.
type Cautions struct{ of map[string]*caution }

type caution struct{ left, wait int }

// Choose puts in place of statements that have not done lately those that stand instead of them.
func (c *Cautions) Choose(batch []sqlgen.Statement) []sqlgen.Statement {
	if len(c.of) == 0 {
		return batch
	}
	var out []sqlgen.Statement
	for i := range batch {
		if batch[i].Instead == nil || c.worth(batch[i].SQL) {
			out = append(out, batch[i])
		} else {
			out = append(out, batch[i].Instead()...)
		}
	}
	return out
}

// worth says whether a statement is worth trying.
func (c *Cautions) worth(sql string) bool {
	k := c.of[sql]
	if k == nil || k.left == 0 {
		return true
	}
	k.left--
	return false
}

// Tried notes whether a statement has done.
func (c *Cautions) Tried(sql string, did bool) {
	if did {
		delete(c.of, sql)
		return
	}
	if c.of == nil || len(c.of) >= maxCautions {
		c.of = make(map[string]*caution)
	}
	k := c.of[sql]
	if k == nil {
		k = &caution{}
		c.of[sql] = k
	}
	k.wait = min(max(2*k.wait, 1), maxCaution)
	k.left = k.wait
}
