package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestLanesEndWithTheSourcesRows runs the same random changes, with keys that change, on one lane and on several, with few
// and with many rows to a checkpoint. What the events say in their order is what must be stored.
func TestLanesEndWithTheSourcesRows(t *testing.T) {
	t.Parallel()
	type row struct{ code, v string }
	for seed := range uint64(2) {
		rng := rand.New(rand.NewPCG(seed, 7))
		rows := map[int]row{}
		var records []caseRecord
		pos := 0
		event := func(op, key, before, after string, headers map[string][]byte) {
			pos++
			records = append(records, caseRecord{topic: "src1.shop.t", key: []byte(key), headers: headers, value: fmt.Appendf(nil,
				`{"before":%s,"after":%s,"source":{"connector":"mysql","name":"src1","snapshot":"false","db":"shop","table":"t","server_id":1,"file":"b.000001","pos":%d,"row":0},"op":%q}`,
				before, after, 100*pos, op)})
		}
		image := func(id int, r row) string { return fmt.Sprintf(`{"id":%d,"code":%q,"v":%q}`, id, r.code, r.v) }
		key := func(id int) string { return fmt.Sprintf(`{"id":%d}`, id) }
		for n := range 400 {
			id, to := rng.IntN(60), rng.IntN(60)
			was, stored := rows[id]
			_, taken := rows[to]
			next := row{code: fmt.Sprintf("c%d", n), v: strings.Repeat("x", rng.IntN(9))}
			switch {
			case !stored:
				event("c", key(id), "null", image(id, next), nil)
				rows[id] = next
			case rng.IntN(5) == 0:
				event("d", key(id), image(id, was), "null", nil)
				delete(rows, id)
			case rng.IntN(3) == 0 && !taken:
				event("d", key(id), image(id, was), "null", map[string][]byte{"__debezium.newkey": []byte(key(to))})
				event("c", key(to), "null", image(to, next), map[string][]byte{"__debezium.oldkey": []byte(key(id))})
				delete(rows, id)
				rows[to] = next
			default:
				event("u", key(id), image(id, was), image(id, next), nil)
				rows[id] = next
			}
		}
		var want strings.Builder
		for id := range 60 {
			if r, ok := rows[id]; ok {
				fmt.Fprintf(&want, "%q | %q | %q\n", fmt.Sprint(id), r.code, r.v)
			}
		}
		for _, c := range []struct{ workers, rows, delivery, table string }{
			{"1", "100000", "two-phase", ""},
			{"4", "100000", "two-phase", ""},
			{"4", "50", "two-phase", ""},
			{"3", "70", "at-least-once", ""},
			{"3", "70", "one-phase", ""},
			{"3", "70", "write-ahead", ""},
			{"4", "50", "two-phase", ", UNIQUE (code)"},
		} {
			t.Run(fmt.Sprintf("seed=%d workers=%s rows=%s %s%s", seed, c.workers, c.rows, c.delivery, c.table), func(t *testing.T) {
				t.Parallel()
				r := newCaseRun(t, &caseFile{})
				r.exec(t, "CREATE TABLE t (id int PRIMARY KEY, code text NOT NULL, v text"+c.table+")")
				r.config["workers"], r.config["checkpoint.rows"], r.config["delivery"] = c.workers, c.rows, c.delivery
				r.produce(t, records...)
				code, stderr := r.run(t)
				if code != 0 || strings.Contains(stderr, "starting again") { // as after a lock that nobody gives up
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
				if got := rowsText(r.exec(t, "SELECT * FROM t ORDER BY id")); got != want.String() {
					t.Errorf("got\n%s\nwant\n%s", got, want.String())
				}
			})
		}
	}
}
