package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"replicator/debezium"
	"replicator/txnsink/mysql/mysqlserver"
)

// upgraded is the topic, and upgradedPipeline the pipeline, of the files in testdata/upgrades: each is a target in which a version of the own
// tables says that the first two of case 67's four events are applied.
const (
	upgraded         = "upgraded.shop.pay"
	upgradedPipeline = "upgraded"
)

// newUpgradeRun produces the events, if they are not there yet, and configures the pipeline.
func newUpgradeRun(t *testing.T, url string) *caseRun {
	t.Helper()
	r := &caseRun{caseFile: loadCase(t, "67"), url: url, target: url, config: map[string]string{
		"pipeline": upgradedPipeline, "source.topics": fmt.Sprintf("['%s']", strings.ReplaceAll(upgraded, ".", `\.`)),
	}}
	err := caseBroker(t).CreateTopic(upgraded, 1, nil)
	if err != nil && strings.Contains(err.Error(), "EXISTS") {
		return r // each test that needs it is a part of one, and they run one after the other
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range r.records(t) {
		if err := caseBroker(t).Produce(t.Context(), debezium.Record{Partition: debezium.Partition{Topic: upgraded}, Key: rec.key, Value: rec.value}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// TestOlderOwnTablesAreTakenOver: this program goes on from what an older one has written. It applies the last two events, and not the first
// again.
func TestOlderOwnTablesAreTakenOver(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "upgrades", "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".sql")
		// More than one of a version is what the same tables were given to hold.
		found = append(found, regexp.MustCompile(`^[a-z]+-[0-9]{4}`).FindString(name))
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			database := "upgrade_" + strings.ReplaceAll(name, "-", "_")
			var url string
			if strings.HasPrefix(name, "mysql") {
				url = oldMySQL(t, database, string(text))
			} else {
				url = caseDatabase(t, database)
				(&caseRun{url: url}).exec(t, string(text)+"SELECT 1")
			}
			r := newUpgradeRun(t, url)
			before := facts[[]checkpointFacts](t, exitDone, "checkpoints", "list", "--config", r.file(t), "--set", "pipeline="+upgradedPipeline)
			if code, stderr := r.run(t); code != exitDone {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.expect(t, r.result(t, ""))
			after := facts[[]checkpointFacts](t, exitDone, "checkpoints", "list", "--config", r.file(t), "--set", "pipeline="+upgradedPipeline)
			rows := int64(0)
			for _, c := range after[len(before):] {
				rows += c.Rows
			}
			if len(before) != 2 || rows != 2 {
				t.Errorf("%d checkpoints before, and %d rows applied; want 2 and 2", len(before), rows)
			}
		})
	}
	found = slices.Compact(found)
	// A migration comes with a file of the version that it makes.
	var want []string
	for _, kind := range []string{"mysql", "postgres"} {
		ups, err := filepath.Glob(filepath.Join("..", "..", "migrations", kind, "*.up.sql"))
		if err != nil {
			t.Fatal(err)
		}
		for _, up := range ups {
			want = append(want, kind+"-"+filepath.Base(up)[:4])
		}
	}
	if !slices.Equal(found, want) {
		t.Errorf("testdata/upgrades has %v, want %v", found, want)
	}
}

// oldMySQL runs a file of statements on a server of its own, and returns the database's URL.
func oldMySQL(t *testing.T, database, text string) string {
	t.Helper()
	server, err := mysqlserver.Start(t.Context(), mysqlserver.Config{Kind: mysqlserver.MySQL9, Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := server.CreateDatabase(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	r := &caseRun{url: server.URL(database)}
	for _, sql := range strings.Split(text, ";\n") {
		if strings.TrimSpace(sql) != "" {
			r.execMySQL(t, sql)
		}
	}
	return r.url
}
