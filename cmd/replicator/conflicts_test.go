package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// TestCaseUniqueValuesTraded runs case 44: rows rotate a unique value within one source transaction. Also with the events the
// other way round, and with a value that one row frees and a new one takes.
func TestCaseUniqueValuesTraded(t *testing.T) {
	t.Parallel()
	c := loadCase(t, "44")
	records := c.records(t)
	reversed := slices.Clone(records)
	slices.Reverse(reversed)
	gone, taken := records[0], records[0]
	gone.value = []byte(`{"before":{"id":1,"code":"A"},"after":null,"op":"d","source":` + sourceOf(t, records[0].value) + `}`)
	taken.key = []byte(`{"id":4}`)
	taken.value = []byte(`{"before":null,"after":{"id":4,"code":"A"},"op":"c","source":` + sourceOf(t, records[1].value) + `}`)
	freed := c.result(t, "")
	freed.Rows = [][]*string{row("2", "B"), row("3", "C"), row("4", "A")}
	for name, v := range map[string]struct {
		records []caseRecord
		want    caseResult
	}{
		"in order":        {records, c.result(t, "")},
		"reversed":        {reversed, c.result(t, "")},
		"freed and taken": {[]caseRecord{taken, gone}, freed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRun(t, c)
			r.config["source.deduplicate"] = "false" // the order is not that of the source's positions
			r.produce(t, v.records...)
			if code, stderr := r.run(t); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.expect(t, v.want)
		})
	}
}

// TestCaseChildBeforeParent runs case 46, also as a role for which the target checks foreign keys.
func TestCaseChildBeforeParent(t *testing.T) {
	t.Parallel()
	for _, role := range []string{"", "case46"} {
		t.Run("role="+role, func(t *testing.T) {
			t.Parallel()
			c := loadCase(t, "46")
			r := newCaseRun(t, c)
			if role != "" {
				r.exec(t, fmt.Sprintf("CREATE ROLE %[1]s LOGIN; GRANT CREATE ON DATABASE %[2]s TO %[1]s; GRANT ALL ON ALL TABLES IN SCHEMA public TO %[1]s", role, databaseOf(t, r.url)))
				u, err := url.Parse(r.target)
				if err != nil {
					t.Fatal(err)
				}
				u.User = url.User(role)
				r.target = u.String()
			}
			r.produce(t, c.records(t)...)
			if code, stderr := r.run(t); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.expect(t, c.result(t, ""))
		})
	}
}

// TestCaseStatementSize runs case 48: more values than a statement can have parameters.
func TestCaseStatementSize(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, loadCase(t, "48"))
	r.produce(t, r.wideRecords(t)...)
	if code, stderr := r.run(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	r.expect(t, r.result(t, ""))
}

// wideRecords returns the events that case 48 describes by its first one.
func (c *caseFile) wideRecords(t *testing.T) []caseRecord {
	t.Helper()
	template := c.records(t)[0]
	records := make([]caseRecord, 5000)
	for n := range records {
		rec := template
		rec.key = fmt.Appendf(nil, `{"id":%d}`, n+1)
		rec.value = bytes.Replace(template.value, []byte(`"id":1,`), fmt.Appendf(nil, `"id":%d,`, n+1), 1)
		for i := 1; i <= 19; i++ {
			rec.value = bytes.Replace(rec.value, fmt.Appendf(nil, `"c%d":"v%d"`, i, i), fmt.Appendf(nil, `"c%d":"v%d-%d"`, i, i, n+1), 1)
		}
		records[n] = rec
	}
	return records
}

// sourceOf is the source member of a message, as it is.
func sourceOf(t *testing.T, message []byte) string {
	t.Helper()
	var v struct{ Source json.RawMessage }
	if err := json.Unmarshal(message, &v); err != nil {
		t.Fatal(err)
	}
	return string(v.Source)
}

func databaseOf(t *testing.T, target string) string {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(u.Path, "/")
}

func row(values ...string) []*string {
	out := make([]*string, len(values))
	for i := range values {
		out[i] = &values[i]
	}
	return out
}
