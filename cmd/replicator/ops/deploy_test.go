package ops

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"replicator/checkpoint"
)

const deploy = "../../../deploy"

// known returns the names of all metrics, those of a histogram as PromQL has them.
func known(t *testing.T) []string {
	t.Helper()
	s := aPipeline()
	s.failed(errTest, "x")
	families, err := s.metrics.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	return append(names, "replicator_checkpoint_seconds_sum", "replicator_checkpoint_seconds_count", "replicator_checkpoint_seconds_bucket")
}

var metricName = regexp.MustCompile(`\b(?:replicator|process)_[a-z_]+`)

// unknownIn returns what an expression asks for and the program does not have.
func unknownIn(known []string, expression string) []string {
	return slices.DeleteFunc(metricName.FindAllString(expression, -1), func(n string) bool { return slices.Contains(known, n) })
}

func TestDashboardAsksForMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(deploy, "grafana", "replicator.json"))
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y, W, H int }
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	names := known(t)
	shown := ""
	for _, p := range dashboard.Panels {
		if len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q shows nothing, or is beyond the edge", p.Title)
		}
		for _, target := range p.Targets {
			shown += target.Expr + "\n"
			if bad := unknownIn(names, target.Expr); len(bad) > 0 {
				t.Errorf("panel %q asks for %v", p.Title, bad)
			}
		}
	}
	for _, n := range names {
		n = strings.TrimSuffix(n, "_bucket")
		if strings.HasPrefix(n, prefix) && !strings.Contains(shown, n) {
			t.Errorf("no panel shows %s", n)
		}
	}
}

func TestAlertsAskForMetricsThatThereAre(t *testing.T) {
	t.Parallel()
	file := filepath.Join(deploy, "prometheus", "replicator.rules.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	if len(rules.Groups) != 1 || len(rules.Groups[0].Rules) == 0 {
		t.Fatalf("got %+v", rules)
	}
	names := known(t)
	for _, r := range rules.Groups[0].Rules {
		if bad := unknownIn(names, r.Expr); len(bad) > 0 {
			t.Errorf("%s asks for %v", r.Alert, bad)
		}
		if r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s does not say how bad it is, what it is and what to do", r.Alert)
		}
	}
	if promtool, err := exec.LookPath("promtool"); err == nil {
		if out, err := exec.CommandContext(t.Context(), promtool, "check", "rules", file).CombinedOutput(); err != nil {
			t.Errorf("promtool: %v\n%s", err, out)
		}
	}
}

// TestReasonsAreThoseThatOpenAPINames keeps the labels of restarts_total and the document together.
func TestReasonsAreThoseThatOpenAPINames(t *testing.T) {
	t.Parallel()
	text, err := web.ReadFile("web/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc described
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	want := []string{"start"}
	for _, p := range []checkpoint.Part{
		checkpoint.PartRecovery, checkpoint.PartSource, checkpoint.PartDecode, checkpoint.PartRoute, checkpoint.PartFold,
		checkpoint.PartTarget, checkpoint.PartCheckpoint, checkpoint.PartUnknown,
	} {
		want = append(want, string(p))
	}
	if got := doc.Components.Schemas["Run"].Properties["reason"].Enum; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
