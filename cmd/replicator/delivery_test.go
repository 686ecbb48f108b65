package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestCasesInOtherDeliveries runs cases of every kind of change, a checkpoint after every event, in the deliveries that
// need no prepared transactions, with each kind of store.
func TestCasesInOtherDeliveries(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"10", "16", "23", "25", "28", "30", "31", "40"} {
		for i, d := range []string{"one-phase", "write-ahead"} {
			for _, store := range []string{"target", "file", "database"}[i:] {
				t.Run(fmt.Sprintf("%s/%s/%s", number, d, store), func(t *testing.T) {
					t.Parallel()
					c := loadCase(t, number)
					r := newCaseRun(t, c)
					r.config["checkpoint.rows"], r.config["delivery"] = "1", d
					switch store {
					case "file":
						r.config["checkpoint.store"] = "file:" + t.TempDir()
					case "database":
						r.config["checkpoint.store"] = caseDatabase(t, fmt.Sprintf("store_%08x", hash(r.url)))
					}
					r.produce(t, c.records(t)...)
					if code, stderr := r.run(t); code != 0 {
						t.Fatalf("exit code %d:\n%s", code, stderr)
					}
					r.expect(t, c.result(t, ""))
					if store != "target" {
						r.expect(t, caseResult{Query: "SELECT count(*) FROM replicator.checkpoints", Rows: [][]*string{{ptr("0")}}})
					}
					r.expect(t, caseResult{Query: "SELECT count(*) FROM replicator.log", Rows: [][]*string{{ptr("0")}}})
				})
			}
		}
	}
}

// TestUnknownOutcomeOfOneStep breaks the connection at COMMIT, before it arrives and after: in a table without a key
// a repeated row would show.
func TestUnknownOutcomeOfOneStep(t *testing.T) {
	t.Parallel()
	for _, d := range []string{"one-phase", "write-ahead"} {
		for _, before := range []bool{false, true} {
			for _, dies := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/before=%v/dies=%v", d, before, dies), func(t *testing.T) {
					t.Parallel()
					r := newCaseRun(t, loadCase(t, "58"))
					r.exec(t, "ALTER TABLE pay DROP CONSTRAINT pay_pkey")
					r.config["delivery"] = d
					r.createTopics(t, r.records(t))
					if code, stderr := r.run(t); code != 0 { // makes the own tables
						t.Fatalf("exit code %d:\n%s", code, stderr)
					}
					r.produce(t, r.records(t)...)
					b, through := newBreaker(t, r.url, "COMMIT\x00", before)
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					go func() {
						<-b.fired
						if dies {
							cancel()
						} else {
							b.mend()
						}
					}()
					r.target = through
					// One that is told to stop while it starts again after the failure has nothing to complain of.
					if code, stderr := r.runContext(ctx, t); code != 0 && !dies {
						t.Fatalf("exit code %d:\n%s", code, stderr)
					}
					r.target = r.url
					for range 2 {
						if code, stderr := r.run(t); code != 0 {
							t.Fatalf("exit code %d:\n%s", code, stderr)
						}
						r.expect(t, caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{{ptr("3"), ptr("60")}}})
					}
				})
			}
		}
	}
}

func TestServerWithoutPreparedTransactionsServesOneStep(t *testing.T) {
	t.Parallel()
	s := newStack(t, -1)
	s.produce(t, "t", "1", "2")
	for _, d := range []string{"one-phase", "write-ahead"} {
		args := []string{"--config", s.file, "--set", "delivery=" + d, "--set", "pipeline=" + d, "--set", "target.table=" + d + "_{table}"}
		define(t, s, `CREATE TABLE "`+d+`_t" (id int PRIMARY KEY, v text)`)
		if got := problems(facts[[]finding](t, exitDone, append([]string{"check"}, args...)...)); slices.Contains(got, "two-phase/unusable") {
			t.Errorf("%s: check: %v", d, got)
		}
		for range 2 {
			if code, _, stderr := call(t, append([]string{"run", "--until-caught-up"}, args...)...); code != exitDone {
				t.Fatalf("%s: exit code %d\n%s", d, code, stderr)
			}
		}
		rows := int64(0)
		for _, c := range facts[[]checkpointFacts](t, exitDone, append([]string{"checkpoints", "list"}, args...)...) {
			rows += c.Rows
		}
		if rows != 2 {
			t.Errorf("%s: %d rows in all checkpoints, want 2", d, rows)
		}
	}
}

// TestStoreThatVanishes: without its store a pipeline stops and names the setting; when the store is back it goes on,
// with nothing lost and nothing repeated.
func TestStoreThatVanishes(t *testing.T) {
	t.Parallel()
	for _, d := range []string{"two-phase", "one-phase", "write-ahead", "at-least-once"} {
		t.Run(d, func(t *testing.T) {
			t.Parallel()
			r := newCaseRun(t, loadCase(t, "58"))
			r.exec(t, "ALTER TABLE pay DROP CONSTRAINT pay_pkey")
			dir := filepath.Join(t.TempDir(), "store")
			r.config["delivery"], r.config["checkpoint.store"] = d, "file:"+dir
			records := r.records(t)
			r.produce(t, records[:2]...)
			if code, stderr := r.run(t); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			if err := os.Rename(dir, dir+".away"); err != nil {
				t.Fatal(err)
			}
			r.produce(t, records[2:]...)
			code, stderr := r.run(t)
			r.stopped(t, code, stderr, "checkpoint.store")
			r.expect(t, caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{{ptr("2"), ptr("30")}}})
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(dir+".away", dir); err != nil {
				t.Fatal(err)
			}
			if code, stderr := r.run(t); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.expect(t, caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{{ptr("3"), ptr("60")}}})
		})
	}
}

// TestTransactionsAreDecidedByHand leaves a transaction in doubt whose checkpoint was saved.
func TestTransactionsAreDecidedByHand(t *testing.T) {
	t.Parallel()
	for _, force := range []bool{false, true} {
		t.Run(fmt.Sprintf("force=%v", force), func(t *testing.T) {
			t.Parallel()
			r := newCaseRun(t, loadCase(t, "58"))
			b, through := newBreaker(t, r.url, "COMMIT PREPARED", true)
			r.produce(t, r.records(t)...)
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				<-b.fired
				cancel()
			}()
			r.target = through
			r.runContext(ctx, t) // the stop comes before the failure is seen, or after it: exit code 1 or 0
			r.target = r.url
			file := r.file(t)
			list := facts[[]transactionFacts](t, exitDone, "transactions", "list", "--config", file)
			if len(list) != 1 || list[0].Recovery != recoveryCommit || !list[0].Settled || list[0].Rows == nil || *list[0].Rows != 3 {
				t.Fatalf("got %+v", list)
			}
			id := list[0].String()
			code, _, stderr := call(t, "transactions", "rollback", id, "--config", file)
			if code != exitFailed || !strings.Contains(stderr, "was saved and lists it") || !strings.Contains(stderr, "--force") {
				t.Fatalf("rollback: exit code %d: %s", code, stderr)
			}
			if force {
				if got := facts[decision](t, exitDone, "transactions", "rollback", id, "--force", "--config", file); !got.Forced {
					t.Errorf("got %+v", got)
				}
				code, stderr := r.run(t)
				r.stopped(t, code, stderr, "transaction lost", "--replay")
				return
			}
			for _, want := range []int{exitDone, exitFailed} { // the second time it is no more
				if code, _, stderr := call(t, "transactions", "commit", id, "--config", file); code != want {
					t.Errorf("commit: exit code %d: %s", code, stderr)
				}
			}
			r.expect(t, caseResult{Query: "SELECT count(*), sum(amt) FROM pay", Rows: [][]*string{{ptr("3"), ptr("60")}}})
			if code, stderr := r.run(t); code != 0 {
				t.Errorf("exit code %d:\n%s", code, stderr)
			}
		})
	}
}
