package main

import "testing"

// TestCaseAddedColumn runs case 36, whose events must come in their order: a run for each.
func TestCaseAddedColumn(t *testing.T) {
	t.Parallel()
	t.Run("evolve", func(t *testing.T) {
		t.Parallel()
		c := loadCase(t, "36")
		r := newCaseRun(t, c)
		for _, record := range c.records(t) {
			r.produce(t, record)
			if code, stderr := r.run(t); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
		}
		r.expect(t, c.result(t, ""))
	})
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		c := loadCase(t, "36")
		r := newCaseRun(t, c)
		r.config["schema.evolve"] = "stop"
		r.produce(t, c.records(t)[:2]...)
		code, stderr := r.run(t)
		r.stopped(t, code, stderr, "missing_column", "ticket", "column state", "schema.evolve", "src1.shop.ticket[0] offset 1")
		if rows := rowsText(r.exec(t, "SELECT * FROM ticket")); rows != "\"1\" | \"a\"\n" {
			t.Errorf("rows:\n%s", rows)
		}
	})
	t.Run("ignore", func(t *testing.T) {
		t.Parallel()
		c := loadCase(t, "36")
		r := newCaseRun(t, c)
		r.config["schema.evolve"] = "ignore"
		r.produce(t, c.records(t)[:2]...)
		if code, stderr := r.run(t); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
		if rows := rowsText(r.exec(t, "SELECT * FROM ticket ORDER BY id")); rows != "\"1\" | \"a\"\n\"2\" | \"b\"\n\"3\" | \"c\"\n" {
			t.Errorf("rows:\n%s", rows)
		}
	})
}

// TestCaseWidening runs case 38: a type that the events show to be wider, and a text that the column is too short for.
func TestCaseWidening(t *testing.T) {
	t.Parallel()
	for _, rows := range []string{"100000", "1"} {
		t.Run("evolve rows="+rows, func(t *testing.T) {
			t.Parallel()
			c := loadCase(t, "38")
			r := newCaseRun(t, c)
			r.config["checkpoint.rows"] = rows
			r.produce(t, c.records(t)...)
			if code, stderr := r.run(t); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.expect(t, c.result(t, "widening_enabled"))
		})
	}
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		c := loadCase(t, "38")
		r := newCaseRun(t, c)
		r.config["schema.evolve"] = "stop"
		r.produce(t, c.records(t)...)
		code, stderr := r.run(t)
		r.stopped(t, code, stderr, "value_out_of_range", "meter", "column id", "src1.shop.meter[0] offset 1")
		r.expect(t, c.result(t, "widening_disabled"))
	})
}
