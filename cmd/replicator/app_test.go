package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"replicator/checkpoint"
	"replicator/debezium"
	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// call runs the program in this process.
func call(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(t.Context(), args, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// configFile writes a configuration to a file of the test's own.
func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestWrongUsageExitsWithTwo(t *testing.T) {
	t.Parallel()
	good := configFile(t, minimal)
	bad := configFile(t, minimal+"pipline: x\n")
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "replicator: name a command"},
		{"rnu", `replicator: unknown command "rnu" for "replicator"`},
		{"run", "replicator: --config FILE is missing"},
		{"run --config", "replicator: flag needs an argument: --config"},
		{"run --cofnig x", "replicator: unknown flag: --cofnig"},
		{"run extra --config " + good, `replicator: unknown command "extra" for "replicator run"`},
		{"run --from 0 --config " + good, "replicator: --from 0: checkpoints are numbered from 1"},
		{"run --from x --config " + good, `replicator: invalid argument "x" for "--from"`},
		{"run --config nowhere.yaml", "replicator: read the configuration: open nowhere.yaml"},
		{"run --config " + bad, "replicator: " + bad + ":7: pipline: there is no such key; did you mean pipeline?"},
		{"run --set x --config " + good, "replicator: --set x: must be KEY.PATH=VALUE"},
		{"check --config " + bad, "replicator: " + bad + ":7: pipline"},
		{"checkpoints", "replicator: replicator checkpoints: name a command: export, import, list, prune, save, show"},
		{"checkpoints show --config " + good, "replicator: accepts 1 arg(s), received 0"},
		{"checkpoints show x --config " + good, `replicator: "x" is no checkpoint's number`},
		{"run --replay --config " + good, "replicator: --replay allows what --from asks for"},
		{"checkpoints prune --config " + good, "replicator: prune: name checkpoints, or say by --keep N"},
		{"checkpoints prune 1 --keep 2 --config " + good, "replicator: prune: name checkpoints, or say by --keep N"},
		{"checkpoints import nowhere.json --config " + good, "replicator: import: open nowhere.json"},
		{"transactions commit shop:1:2 --config " + good, `replicator: "shop:1:2" is no transaction's ID`},
		{"transactions lsit", `replicator: unknown command "lsit" for "replicator transactions"`},
		{"version extra", `replicator: unknown command "extra" for "replicator version"`},
	} {
		code, _, stderr := call(t, strings.Fields(c.args)...)
		if code != exitUsage || !strings.HasPrefix(stderr, c.want) {
			t.Errorf("replicator %s: exit code %d, want 2; stderr\n%swant it to begin with\n%s", c.args, code, stderr, c.want)
		}
	}
}

func TestVersionSaysWhatItIs(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := call(t, "version")
	if code != 0 || stderr != "" || !strings.HasPrefix(stdout, "replicator dev, commit ") || !strings.HasSuffix(stdout, runtime.Version()+"\n") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, stdout, stderr)
	}
	code, stdout, _ = call(t, "version", "--json")
	var got versionInfo
	if err := json.Unmarshal([]byte(stdout), &got); code != 0 || err != nil {
		t.Fatalf("exit code %d, %v: %s", code, err, stdout)
	}
	want := versionInfo{Version: "dev", Commit: readVersion().Commit, Go: runtime.Version()}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestHelpExitsWithZero(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--help"}, {"help", "run"}, {"checkpoints", "--help"}} {
		if code, stdout, stderr := call(t, args...); code != 0 || stdout == "" || stderr != "" {
			t.Errorf("%v: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
	}
}

func TestPasswordsAreMasked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"postgres://u:pw@h:5432/d":                      "postgres://u:***@h:5432/d",
		"cannot use postgres://u:p@s/w@h/d?x=1 because": "cannot use postgres://u:***@h/d?x=1 because",
		`parse "postgres://u:p%zz@h": invalid`:          `parse "postgres://u:***@h": invalid`,
		"postgres://h/d?user=u&password=pw&x=1":         "postgres://h/d?user=u&password=***&x=1",
		"host=h user=u password='p w' dbname=d":         "host=h user=u password=*** dbname=d",
		"kafka at 127.0.0.1:9092, me@example.org":       "kafka at 127.0.0.1:9092, me@example.org",
		"http://127.0.0.1:8088/ and user@host":          "http://127.0.0.1:8088/ and user@host",
		"postgres://u@h/d":                              "postgres://u@h/d",
	} {
		if got := redact(text); got != want {
			t.Errorf("redact(%q)\n got %q\nwant %q", text, got, want)
		}
	}
	var out bytes.Buffer
	c := defaults()
	c.Log.Format = "json"
	log := c.logger(&out)
	log.Info("x", "url", "postgres://u:secret@h", "error", errors.New("dial postgres://u:secret@h"), slog.Group("g", "password", "password=secret"))
	if strings.Contains(out.String(), "secret") || strings.Count(out.String(), "***") != 3 {
		t.Errorf("log line: %s", out.String())
	}
}

func TestLogLevelAndFormat(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ level, format, want string }{
		{"info", "text", `level=INFO msg=b`},
		{"warn", "text", ""},
		{"debug", "json", `"level":"DEBUG","msg":"a"`},
	} {
		var out bytes.Buffer
		cfg := defaults()
		cfg.Log = logConfig{c.level, c.format}
		log := cfg.logger(&out)
		log.Debug("a")
		log.Info("b")
		if c.want == "" && out.Len() > 0 || !strings.Contains(out.String(), c.want) {
			t.Errorf("%s %s: %s", c.level, c.format, out.String())
		}
	}
}

func TestRecoveryOfTransactionsIsForetold(t *testing.T) {
	t.Parallel()
	id := func(n int64) txnsink.ID { return txnsink.ID{Pipeline: "p", Epoch: 2, Checkpoint: n} }
	got := decisions([]txnsink.Prepared{{ID: id(7), AgeSeconds: 1.5}, {ID: id(8)}, {ID: id(5)}},
		[]checkpoint.Checkpoint{{ID: 6, Epoch: 2, Txns: []txnsink.ID{id(6)}}, {ID: 7, Epoch: 2, Rows: 9, Txns: []txnsink.ID{id(7)}}})
	rows := int64(9)
	want := []transactionFacts{
		{id(7), 1.5, &rows, "commit", "checkpoint 7 was saved and lists it", true},
		{id(8), 0, nil, "rollback", "checkpoint 8 is not saved; if its run is at work, it may still save it", false},
		{id(5), 0, nil, "rollback", "no saved checkpoint lists it, and the last one is 7 of epoch 2", true},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestProgressBarStaysBelowTheLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	b := &progressBar{out: &out}
	b.show(checkpoint.Progress{Events: 10, Checkpoint: 3, ToGo: 30, Total: 40})
	bar := barText(checkpoint.Progress{Events: 10, Checkpoint: 3, ToGo: 30, Total: 40}, 0)
	if _, err := b.Write([]byte("a line\n")); err != nil {
		t.Fatal(err)
	}
	b.clear()
	if got, want := out.String(), clearLine+bar+clearLine+"a line\n"+bar+"\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := barText(checkpoint.Progress{Events: 500, Repeated: 2, Checkpoint: 4, Total: 0}, 2*time.Second), "["+strings.Repeat("=", barWidth)+"] 100%  500 events, 250/s, 2 repeated, checkpoint 4, 0 to go"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAlterationsAreCountedAndLogDoesNotFlood(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	a := &alterations{pipeline: "p", log: slog.New(slog.NewTextHandler(&out, nil)), seen: map[alteration]int64{}}
	for range 1234 {
		a.counter(nulAltered)(schema.Name{Table: "t"}, "c")
	}
	a.counter(nulAltered)(schema.Name{Table: "t"}, "d")
	a.counter(nanosCut)(schema.Name{Table: "t"}, "d")
	for _, name := range []string{"x", "x", "y"} {
		a.unknown(schema.Name{Table: "t"}, "d", name)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		_, facts, _ := strings.Cut(strings.TrimSpace(line), "pipeline=p ")
		got = append(got, facts)
	}
	want := []string{
		"table=t column=c values=1", "table=t column=c values=10", "table=t column=c values=100", "table=t column=c values=1000",
		"table=t column=d values=1", "table=t column=d values=1", "table=t column=d type=x", "table=t column=d type=y",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestCheckFindsWhatTablesAreLike(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 70)
	c := minimalConfig()
	c.Tables = []tableRule{{Match: mustMatch(t, `shop\.skipped`), Skip: true}, {Match: mustMatch(t, `shop\.log2`), Rows: sqlgen.Rules{Key: []string{"a"}}}}
	column := schema.Column{Name: "a", Type: schema.Type{Kind: schema.Int32}}
	create := func(database, table string, columns ...schema.Column) debezium.TableChange {
		return debezium.TableChange{Type: "CREATE", Database: database, Table: table, Shape: &schema.Table{Name: schema.Name{Table: table}, Columns: columns}}
	}
	var tables []knownTable
	for _, change := range []debezium.TableChange{create("shop", "log", column), create("shop", "log2", column), create("other", "log", column), create("shop", long, column, schema.Column{Name: long, Type: column.Type})} {
		name := change.Database + "." + change.Table
		k := knownTable{source: name, shape: *change.Shape, target: fillTemplate("{table}", "p", change)}
		if name == "shop.log2" {
			k.rows.Key = []string{"a"}
		}
		tables = append(tables, k)
	}
	var f findings
	checkTables(&c, tables, &f)
	var got []string
	for _, x := range f.list {
		got = append(got, x.Level+" "+x.Check+" "+strings.ReplaceAll(x.Message, long, "LONG"))
	}
	short := sqlgen.Postgres{}.ShortName(long)
	want := []string{
		"error names tables shop.log and other.log both go to log",
		"warning names table shop.LONG is longer than the target's limit of 63 bytes and is called " + short + " there",
		"warning names column LONG of table shop.LONG is longer than the target's limit of 63 bytes and is called " + short + " there",
		"warning keys 3 tables have no primary key, and changes look for an equal row: other.log, shop.log, shop.LONG",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
