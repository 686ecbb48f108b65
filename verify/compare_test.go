package verify_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"replicator/sqlgen"
	"replicator/txnsink/mysql/mysqlserver"
	"replicator/verify"
	"replicator/verify/postgres"
)

// directions are what the same table is compared between.
var directions = []struct{ name, source, target string }{
	{"mysql to postgres", "mysql", "postgres"}, {"postgres to postgres", "postgres", "postgres"}, {"mysql to mysql", "mysql", "mysql"},
}

func newDatabase(t testing.TB, kind string) database {
	t.Helper()
	if kind == "postgres" {
		return newPostgres(t)
	}
	return newMySQL(t, mysqlserver.MySQL9)
}

// accounts fills a table of n rows on both sides.
func accounts(t testing.TB, source, target database, n int) {
	t.Helper()
	for _, side := range []database{source, target} {
		fill(t, side, n)
	}
}

// fill makes the table on one side.
func fill(t testing.TB, side database, n int) {
	t.Helper()
	if _, ok := side.Side.(*postgres.DB); ok {
		side.run(t, "CREATE TABLE accounts (id bigint PRIMARY KEY, name varchar(50), balance numeric(12,2), changed timestamp)",
			fmt.Sprintf("INSERT INTO accounts SELECT n, 'name ' || n, n / 8.0, timestamp '2020-01-01' + n * interval '1 second' FROM generate_series(1, %d) AS n", n))
		return
	}
	side.run(t, "CREATE TABLE accounts (id bigint PRIMARY KEY, name varchar(50), balance decimal(12,2), changed datetime(6))")
	digits := "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	number := "1 + a.d"
	from := digits + " a"
	for i, scale := 1, 10; scale < n; i, scale = i+1, scale*10 {
		number += fmt.Sprintf(" + x%d.d * %d", i, scale)
		from += fmt.Sprintf(" CROSS JOIN %s x%d", digits, i)
	}
	side.run(t, fmt.Sprintf("INSERT INTO accounts SELECT n, CONCAT('name ', n), n / 8, TIMESTAMPADD(SECOND, n, '2020-01-01') FROM (SELECT %s AS n FROM %s) f WHERE n <= %d", number, from, n))
}

// spoil changes a byte of one row of the target's n, takes one out and puts one in, and returns what is to be found.
func spoil(t testing.TB, target database, n int) []verify.Difference {
	t.Helper()
	target.run(t, "UPDATE accounts SET name = 'name 1234x' WHERE id = 12345", "DELETE FROM accounts WHERE id = 23456",
		fmt.Sprintf("INSERT INTO accounts VALUES (%d, 'extra', 0, '2020-01-01')", n+5))
	return []verify.Difference{
		{Kind: verify.Changed, Key: []string{"12345"}, Columns: []string{"name"}, Count: 1},
		{Kind: verify.Missing, Key: []string{"23456"}, Count: 1},
		{Kind: verify.Extra, Key: []string{fmt.Sprint(n + 5)}, Count: 1},
	}
}

// sorted orders differences by kind.
func sorted(list []verify.Difference) []verify.Difference {
	slices.SortFunc(list, func(a, b verify.Difference) int { return strings.Compare(string(a.Kind), string(b.Kind)) })
	return list
}

// TestOneChangedMissingAndExtraRowAreFound: the rest is read by sums alone.
func TestOneChangedMissingAndExtraRowAreFound(t *testing.T) {
	t.Parallel()
	const n = 30_000
	for _, d := range directions {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			source, target := newDatabase(t, d.source), newDatabase(t, d.target)
			accounts(t, source, target, n)
			differences := spoil(t, target, n)
			var last verify.Progress
			got := compare(t, verify.Config{
				Source: source, Target: target, Postgres: d.source == "postgres" && d.target == "postgres",
				Pairs: []verify.Pair{pair(t, source, target, "accounts", sqlgen.Rules{})}, Chunk: 1000, Progress: func(p verify.Progress) { last = p },
			})
			sorted(got[0].Differences)
			want := []verify.TableReport{{Table: tableOf(source), Target: tableOf(target), Key: []string{"id"}, Rows: n, Differences: sorted(differences)}}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			if last.Rows != n || last.Elapsed == 0 {
				t.Errorf("the progress ends with %+v", last)
			}
		})
	}
}

func tableOf(side database) string {
	if _, ok := side.Side.(*postgres.DB); ok {
		return "public.accounts"
	}
	return side.name + ".accounts"
}

// replica is a target that follows its source by a lag, as a pipeline's does.
type replica struct {
	t              testing.TB
	source, target database
	lag            time.Duration
}

// write changes rows at the source, and the target's a lag later, until ctx is done.
func (r replica) write(ctx context.Context) int {
	writes := 0
	for ; ctx.Err() == nil; writes++ {
		id := writes*7919%5000 + 1
		r.source.run(r.t, fmt.Sprintf("UPDATE accounts SET name = 'write %d' WHERE id = %d", writes, id),
			fmt.Sprintf("INSERT INTO accounts VALUES (%d, 'new', 1, NULL)", 10_000_000+writes), fmt.Sprintf("DELETE FROM accounts WHERE id = %d", 5000+writes))
		wait := time.NewTimer(r.lag)
		<-wait.C
		r.target.run(r.t, fmt.Sprintf("UPDATE accounts SET name = 'write %d' WHERE id = %d", writes, id),
			fmt.Sprintf("INSERT INTO accounts VALUES (%d, 'new', 1, NULL)", 10_000_000+writes), fmt.Sprintf("DELETE FROM accounts WHERE id = %d", 5000+writes))
	}
	return writes
}

// TestRowsInFlightAreNoDifferences compares again and again while rows are written, and finds the one row that does differ.
func TestRowsInFlightAreNoDifferences(t *testing.T) {
	t.Parallel()
	source, target := newMySQL(t, mysqlserver.MySQL8), newPostgres(t)
	accounts(t, source, target, 20_000)
	target.run(t, "UPDATE accounts SET balance = -1 WHERE id = 19999")
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan int)
	go func() { done <- replica{t, source, target, 100 * time.Millisecond}.write(ctx) }()
	suspects := 0
	for range 3 {
		got := compare(t, verify.Config{
			Source: source, Target: target, Pairs: []verify.Pair{pair(t, source, target, "accounts", sqlgen.Rules{})}, Chunk: 1000,
			Lag: time.Second, Progress: func(p verify.Progress) { suspects = max(suspects, p.Suspects) },
		})
		want := []verify.Difference{{Kind: verify.Changed, Key: []string{"19999"}, Columns: []string{"balance"}, Count: 1}}
		if !reflect.DeepEqual(got[0].Differences, want) || got[0].Unsettled > 0 {
			t.Errorf("got %+v\nwant %+v", got[0], want)
		}
	}
	stop()
	if n := <-done; n == 0 || suspects == 0 {
		t.Errorf("%d writes, and at most %d rows in flight: the test shows nothing", n, suspects)
	}
}

// TestKeysOfEveryKind has the same differences under keys that ranges can be made of, wholly or in part, and under others.
func TestKeysOfEveryKind(t *testing.T) {
	t.Parallel()
	source, target := newMySQL(t, mysqlserver.MySQL9), newPostgres(t)
	for name, key := range map[string]struct{ source, target, mysql, pg string }{
		"pair":     {"a int, b bigint unsigned", "a int, b numeric(20,0)", "n DIV 100 - 3, 18446744073709551615 - n", "n / 100 - 3, 18446744073709551615 - n"},
		"mixed":    {"a smallint, b varchar(20)", "a smallint, b varchar(20)", "n DIV 700, CONCAT('Ä', n)", "n / 700, 'Ä' || n"},
		"text":     {"a varchar(20), b int", "a varchar(20), b int", "CONCAT(IF(n % 2, 'k', 'K'), n DIV 2), n % 2", "(CASE WHEN n % 2 = 1 THEN 'k' ELSE 'K' END) || n / 2, n % 2"},
		"bytes":    {"a binary(4), b date", "a bytea, b date", "UNHEX(LPAD(HEX(n), 8, '0')), '2020-01-01' + INTERVAL n DAY", "decode(lpad(to_hex(n), 8, '0'), 'hex'), date '2020-01-01' + n"},
		"timedkey": {"a datetime(3), b time", "a timestamp(3), b interval", "TIMESTAMPADD(SECOND, n, '2020-01-01 00:00:00.500'), SEC_TO_TIME(n)", "timestamp '2020-01-01 00:00:00.5' + n * interval '1 second', n * interval '1 second'"},
	} {
		source.run(t, fmt.Sprintf("CREATE TABLE %s (%s, v int, PRIMARY KEY (a, b))", name, key.source),
			fmt.Sprintf("INSERT INTO %s WITH RECURSIVE s AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM s WHERE n < 900) SELECT %s, n FROM s", name, key.mysql))
		target.run(t, fmt.Sprintf("CREATE TABLE %s (%s, v int, PRIMARY KEY (a, b))", name, key.target),
			fmt.Sprintf("INSERT INTO %s SELECT %s, n FROM generate_series(1, 900) AS n", name, key.pg))
		p := []verify.Pair{pair(t, source, target, name, sqlgen.Rules{})}
		if got := compare(t, verify.Config{Source: source, Target: target, Pairs: p, Chunk: 100}); !got[0].Equal() || got[0].Rows != 900 {
			t.Errorf("%s: got %+v, want no difference", name, got)
		}
		target.run(t, fmt.Sprintf("UPDATE %s SET v = 0 WHERE v = 1", name), fmt.Sprintf("DELETE FROM %s WHERE v = 450", name))
		source.run(t, fmt.Sprintf("DELETE FROM %s WHERE v = 900", name))
		var kinds []string
		for _, d := range compare(t, verify.Config{Source: source, Target: target, Pairs: p, Chunk: 100})[0].Differences {
			kinds = append(kinds, string(d.Kind))
		}
		slices.Sort(kinds)
		if want := []string{"changed", "extra", "missing"}; !slices.Equal(kinds, want) {
			t.Errorf("%s: got %v, want %v", name, kinds, want)
		}
	}
}

// TestRowsWithoutAKeyAreCounted: which of the equal rows is missing cannot be said, and how many can.
func TestRowsWithoutAKeyAreCounted(t *testing.T) {
	t.Parallel()
	source, target := newMySQL(t, mysqlserver.MySQL9), newPostgres(t)
	source.run(t, "CREATE TABLE log (v varchar(20), d json, x double)", "INSERT INTO log VALUES ('a', '{\"x\": 1.0}', 1.5), ('a', '{\"x\": 1.0}', 1.5), ('a', '{\"x\": 1.0}', 1.5), ('b', NULL, NULL), (NULL, NULL, NULL)")
	target.run(t, "CREATE TABLE log (v varchar(20), d jsonb, x double precision)", "INSERT INTO log VALUES ('a', '{\"x\": 1}', 1.5), ('b', NULL, NULL), ('b', NULL, NULL), (NULL, NULL, NULL)")
	got := compare(t, verify.Config{Source: source, Target: target, Pairs: []verify.Pair{pair(t, source, target, "log", sqlgen.Rules{})}})
	var found []string
	for _, d := range got[0].Differences {
		found = append(found, fmt.Sprintf("%s %d", d.Kind, d.Count))
	}
	slices.Sort(found)
	if want := []string{"extra 1", "missing 2"}; !slices.Equal(found, want) {
		t.Errorf("got %v, want %v", found, want)
	}
}

// TestRulesSayWhatIsCompared: renamed, left out, deleted in name only.
func TestRulesSayWhatIsCompared(t *testing.T) {
	t.Parallel()
	source, target := newMySQL(t, mysqlserver.MySQL9), newPostgres(t)
	source.run(t, "CREATE TABLE c (id int PRIMARY KEY, name varchar(10), note text)", "INSERT INTO c VALUES (1, 'a', 'x'), (2, 'b', 'y')")
	target.run(t, `CREATE TABLE c (id int PRIMARY KEY, "Full" varchar(10), mine int, gone boolean, at timestamptz)`, "INSERT INTO c VALUES (1, 'a', 7, NULL, NULL), (2, 'b', 8, false, NULL), (3, 'c', 9, true, now())")
	rules := sqlgen.Rules{Exclude: []string{"note"}, Rename: map[string]string{"name": "full"}, Delete: sqlgen.DeleteSoft, Soft: "gone"}
	for _, soft := range []string{"gone", "at"} {
		rules.Soft = soft
		if got := compare(t, verify.Config{Source: source, Target: target, Pairs: []verify.Pair{pair(t, source, target, "c", rules)}}); !got[0].Equal() || got[0].Rows != 2 {
			t.Errorf("deleted in name only by %s: got %+v, want no difference", soft, got)
		}
	}
	rules.Delete, rules.Soft = sqlgen.DeleteIgnore, ""
	if got := compare(t, verify.Config{Source: source, Target: target, Pairs: []verify.Pair{pair(t, source, target, "c", rules)}}); !got[0].Equal() {
		t.Errorf("deletes are ignored: got %+v, want no difference", got)
	}
	rules.Exclude, rules.Delete = nil, sqlgen.DeleteApply
	got := compare(t, verify.Config{Source: source, Target: target, Pairs: []verify.Pair{pair(t, source, target, "c", rules)}})
	if want := "the target's table public.c has no column note; add it, or leave it out by a rule (columns: exclude)"; got[0].Problem != want {
		t.Errorf("got the problem %q\nwant %q", got[0].Problem, want)
	}
}

// TestATableThatDiffersEverywhereIsLeft: a report of a million rows helps nobody.
func TestATableThatDiffersEverywhereIsLeft(t *testing.T) {
	t.Parallel()
	source, target := newMySQL(t, mysqlserver.MySQL9), newPostgres(t)
	accounts(t, source, target, 20_000)
	target.run(t, "TRUNCATE accounts")
	got := compare(t, verify.Config{Source: source, Target: target, Pairs: []verify.Pair{pair(t, source, target, "accounts", sqlgen.Rules{})}, Limit: 10, Chunk: 1000})
	if len(got[0].Differences) != 10 || !got[0].More || got[0].Rows > 15_000 {
		t.Errorf("got %d differences, more: %v, of %d rows; want 10, true, of a part of the table", len(got[0].Differences), got[0].More, got[0].Rows)
	}
}

// TestTheRateIsKept reads 4,000 rows at 10,000 a second, of which the first 1,000 are not waited for.
func TestTheRateIsKept(t *testing.T) {
	t.Parallel()
	source, target := newMySQL(t, mysqlserver.MySQL9), newPostgres(t)
	accounts(t, source, target, 4000)
	begun := time.Now()
	got := compare(t, verify.Config{Source: source, Target: target, Pairs: []verify.Pair{pair(t, source, target, "accounts", sqlgen.Rules{})}, Chunk: 1000, Rate: 10_000})
	if took := time.Since(begun); !got[0].Equal() || took < 300*time.Millisecond {
		t.Errorf("got %+v after %v, want no difference and 300 ms at least", got, took)
	}
}

// TestPostgresIsASourceToo compares two tables of PostgreSQL, with types that only it has.
func TestPostgresIsASourceToo(t *testing.T) {
	t.Parallel()
	source, target := newPostgres(t), newPostgres(t)
	columns := "id uuid PRIMARY KEY, n numeric, f double precision, at timestamptz, i interval, tags text[], r int4range, ip inet, d date, b bytea, c char(5), m mood"
	for _, side := range []database{source, target} {
		side.run(t, "CREATE TYPE mood AS ENUM ('sad', 'glad')", "CREATE TABLE things ("+columns+", j json)",
			`INSERT INTO things SELECT md5(n::text)::uuid, n / 7.0, n / 7.0, timestamptz 'epoch' + n * interval '1 hour', n * interval '1 month 1 hour', ARRAY['a', NULL, n::text],
			int4range(n, n + 5), ('10.0.0.' || n)::inet, 'infinity', decode('00ff', 'hex'), 'ab', 'glad', '{"a": 1}' FROM generate_series(1, 200) AS n`,
			"INSERT INTO things VALUES (md5('x')::uuid, 'NaN', '-Infinity', 'infinity')")
	}
	target.run(t, "ALTER TABLE things ALTER j TYPE jsonb, ALTER c TYPE varchar(5), ALTER m TYPE text")
	p := []verify.Pair{pair(t, source, target, "things", sqlgen.Rules{})}
	divided := &atomic.Int64{}
	if got := compare(t, verify.Config{Source: counted{source, divided}, Target: counted{target, divided}, Postgres: true, Pairs: p}); !got[0].Equal() || divided.Load() > 0 {
		t.Errorf("got %+v and %d divided ranges, want none", got, divided.Load())
	}
	target.run(t, "UPDATE things SET tags[2] = 'b' WHERE n = 7 / 7.0")
	got := compare(t, verify.Config{Source: source, Target: target, Postgres: true, Pairs: p})
	want := []verify.Difference{{Kind: verify.Changed, Key: []string{"8f14e45f-ceea-167a-5a36-dedd4bea2543"}, Columns: []string{"tags"}, Count: 1}}
	if !reflect.DeepEqual(got[0].Differences, want) {
		t.Errorf("got %+v\nwant %+v", got[0].Differences, want)
	}
}

// TestMySQLAndMariaDBAreCompared: a target may be another server of the source's kind.
func TestMySQLAndMariaDBAreCompared(t *testing.T) {
	t.Parallel()
	source, target := newMySQL(t, mysqlserver.MySQL8), newMySQL(t, mysqlserver.MariaDB)
	const columns = "id int PRIMARY KEY, f float, x double, b bit(9), d date, at datetime(6), u time(3), s varchar(20), k char(5), r varbinary(9), e enum('a','b'), n decimal(9,3)"
	const row = "(1, 1.1, 1e-16, b'101', '2020-01-01', '2020-01-01 00:00:00.5', '-00:00:00.5', 'ä ', 'b', 0x00ff, 'b', 1.5)"
	for _, side := range []database{source, target} {
		side.run(t, "CREATE TABLE m ("+columns+")", "INSERT INTO m VALUES "+row, "INSERT INTO m (id) VALUES (2)")
	}
	source.run(t, "INSERT INTO m (id, f, d) VALUES (3, 16777216, '0000-00-00')")
	target.run(t, "INSERT INTO m (id, f) VALUES (3, 16777215)")
	got := compare(t, verify.Config{Source: source, Target: target, Pairs: []verify.Pair{pair(t, source, target, "m", sqlgen.Rules{})}})
	want := []verify.Difference{{Kind: verify.Changed, Key: []string{"3"}, Columns: []string{"f"}, Count: 1}}
	if !reflect.DeepEqual(got[0].Differences, want) {
		t.Errorf("got %+v\nwant %+v", got[0].Differences, want)
	}
}

// BenchmarkCompareMillion compares a million rows, one of which is changed by a byte, one missing and one extra; and then, when the target is
// repaired, once more while rows are written, and nothing is to be found. A minute is to be enough for each.
func BenchmarkCompareMillion(b *testing.B) {
	const n = 1_000_000
	for _, d := range directions {
		b.Run(strings.ReplaceAll(d.name, " ", "_"), func(b *testing.B) {
			source, target := newDatabase(b, d.source), newDatabase(b, d.target)
			accounts(b, source, target, n)
			want := sorted(spoil(b, target, n))
			config := verify.Config{
				Source: source, Target: target, Postgres: d.source == "postgres" && d.target == "postgres",
				Pairs: []verify.Pair{pair(b, source, target, "accounts", sqlgen.Rules{})}, Lag: time.Second,
			}
			timed := func(what string, want []verify.Difference) {
				begun := time.Now()
				got := compare(b, config)
				took := time.Since(begun)
				if sorted(got[0].Differences); !reflect.DeepEqual(got[0].Differences, want) || got[0].Unsettled > 0 || took > time.Minute {
					b.Fatalf("%s: got %+v after %v, want %+v within a minute", what, got, took, want)
				}
				b.ReportMetric(took.Seconds(), what+"-s")
			}
			for b.Loop() {
				timed("differences", want)
			}
			target.run(b, "UPDATE accounts SET name = 'name 12345' WHERE id = 12345", fmt.Sprintf("DELETE FROM accounts WHERE id = %d", n+5))
			source.run(b, "DELETE FROM accounts WHERE id = 23456")
			ctx, stop := context.WithCancel(b.Context())
			done := make(chan int)
			go func() { done <- replica{b, source, target, 100 * time.Millisecond}.write(ctx) }()
			timed("under-writes", []verify.Difference{})
			stop()
			b.ReportMetric(float64(<-done), "writes")
		})
	}
}
