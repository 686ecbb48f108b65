package main

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var deploy = filepath.Join(root, "deploy")

func readYAML(t *testing.T, file string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(readText(t, file)), into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// mustAccept gives a configuration to the program's parser, with nothing in the environment but what is set beside it.
func mustAccept(t *testing.T, name, text string, set map[string]string) config {
	t.Helper()
	c, err := parseConfig(name, []byte(text), nil, func(name string) (string, bool) {
		v, ok := set[name]
		return v, ok
	})
	if err != nil {
		t.Error(err)
	}
	return c
}

// mustExist looks for a file or, by a pattern, for files.
func mustExist(t *testing.T, pattern string) {
	t.Helper()
	if found, err := filepath.Glob(pattern); err != nil || len(found) == 0 {
		t.Errorf("there is no %s (%v)", pattern, err)
	}
}

type composeService struct {
	Build       struct{ Context, Dockerfile string }
	Image       string
	Environment map[string]string
	Volumes     []string
	Ports       []string
	Healthcheck struct{ Test []string }
	DependsOn   yaml.Node `yaml:"depends_on"`
}

// TestComposeFileStartsWhatItNames reads compose.yaml as its engine does, as far as a test can: what it mounts, builds, waits for and runs is there.
func TestComposeFileStartsWhatItNames(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(deploy, "compose")
	var file struct{ Services map[string]composeService }
	readYAML(t, filepath.Join(dir, "compose.yaml"), &file)
	want := []string{"connect", "connector", "kafka", "mysql", "postgres", "replicator"}
	if got := slices.Sorted(maps.Keys(file.Services)); !slices.Equal(got, want) {
		t.Fatalf("the services are %v, want %v", got, want)
	}
	for name, s := range file.Services {
		if (s.Image == "") == (s.Build.Context == "") {
			t.Errorf("%s must have an image or be built", name)
		}
		if s.Build.Context != "" {
			mustExist(t, filepath.Join(dir, s.Build.Context, s.Build.Dockerfile))
		}
		for _, v := range s.Volumes {
			from, _, _ := strings.Cut(v, ":")
			mustExist(t, filepath.Join(dir, from))
		}
		for _, p := range s.Ports {
			if !strings.HasPrefix(p, "127.0.0.1:") {
				t.Errorf("%s is open to other machines: %s", name, p)
			}
		}
		for other, condition := range dependencies(t, s.DependsOn) {
			of, there := file.Services[other]
			if !there || condition == "service_healthy" && len(of.Healthcheck.Test) == 0 {
				t.Errorf("%s waits for %s to be %s, which will not be", name, other, condition)
			}
		}
	}
	own := file.Services["replicator"]
	if err := parseCommand(strings.Join(own.Healthcheck.Test[2:], " "), false); err != nil {
		t.Errorf("healthcheck: %v", err)
	}
	c := mustAccept(t, "compose/config.yaml", readText(t, filepath.Join(dir, "config.yaml")), own.Environment)
	var connector map[string]string
	if err := json.Unmarshal([]byte(readText(t, filepath.Join(dir, "connector.json"))), &connector); err != nil {
		t.Fatal(err)
	}
	if prefix := connector["topic.prefix"]; prefix != c.Source.SchemaChanges || prefix+".transaction" != c.Source.Transactions {
		t.Errorf("the connector's prefix is %q, and the replicator reads %q and %q", prefix, c.Source.SchemaChanges, c.Source.Transactions)
	}
}

// dependencies reads both forms of depends_on: service → condition.
func dependencies(t *testing.T, n yaml.Node) map[string]string {
	t.Helper()
	out := map[string]string{}
	var names []string
	var conditions map[string]struct{ Condition string }
	switch n.Kind {
	case yaml.SequenceNode:
		if err := n.Decode(&names); err != nil {
			t.Fatal(err)
		}
	case yaml.MappingNode:
		if err := n.Decode(&conditions); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		out[name] = "service_started"
	}
	for name, c := range conditions {
		out[name] = c.Condition
	}
	return out
}

// A manifest is what a test asks of any of Kubernetes's objects.
type manifest struct {
	Kind       string
	Metadata   struct{ Name string }
	Data       map[string]string
	StringData map[string]string `yaml:"stringData"`
	Spec       struct {
		Replicas int
		Strategy struct{ Type string }
		Template struct {
			Spec struct {
				Containers []container
				Volumes    []struct {
					Name      string
					ConfigMap struct{ Name string } `yaml:"configMap"`
				}
			}
		}
	}
}

type container struct {
	Args    []string
	EnvFrom []struct {
		SecretRef struct{ Name string } `yaml:"secretRef"`
	} `yaml:"envFrom"`
	Ports []struct {
		ContainerPort string `yaml:"containerPort"`
	}
	LivenessProbe  probe `yaml:"livenessProbe"`
	ReadinessProbe probe `yaml:"readinessProbe"`
}

type probe struct {
	HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
}

func TestKubernetesManifestRunsOneProcessWithAConfigurationThatItAccepts(t *testing.T) {
	t.Parallel()
	objects := map[string]manifest{}
	d := yaml.NewDecoder(strings.NewReader(readText(t, filepath.Join(deploy, "kubernetes", "replicator.yaml"))))
	for {
		var m manifest
		err := d.Decode(&m)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		objects[m.Kind] = m
	}
	deployment, secret, configuration := objects["Deployment"], objects["Secret"], objects["ConfigMap"]
	if deployment.Spec.Replicas != 1 || deployment.Spec.Strategy.Type != "Recreate" {
		t.Error("two processes would fence each other")
	}
	pod := deployment.Spec.Template.Spec
	if len(pod.Containers) != 1 || len(pod.Volumes) != 1 || len(pod.Containers[0].EnvFrom) != 1 || len(pod.Containers[0].Ports) != 1 {
		t.Fatalf("got %+v", pod)
	}
	own := pod.Containers[0]
	if pod.Volumes[0].ConfigMap.Name != configuration.Metadata.Name || own.EnvFrom[0].SecretRef.Name != secret.Metadata.Name {
		t.Error("the pod has another configuration or another secret")
	}
	if err := parseCommand(strings.Join(own.Args, " "), false); err != nil {
		t.Errorf("args: %v", err)
	}
	c := mustAccept(t, "kubernetes/config.yaml", configuration.Data[filepath.Base(own.Args[len(own.Args)-1])], secret.StringData)
	if want := "0.0.0.0:" + own.Ports[0].ContainerPort; c.HTTP.Listen != want {
		t.Errorf("http.listen is %q, want %q", c.HTTP.Listen, want)
	}
	if own.LivenessProbe.HTTPGet.Path != "/healthz" || own.ReadinessProbe.HTTPGet.Path != "/readyz" {
		t.Error("a pipeline that waits for a server must be alive and not ready")
	}
}

var unitLine = regexp.MustCompile(`^(?:[#;].*|\[[A-Z][a-z]+\]|[A-Z][A-Za-z]+=.*|)$`)

func TestUnitStartsAPipelineThatReportsItself(t *testing.T) {
	t.Parallel()
	text := readText(t, filepath.Join(deploy, "systemd", "replicator@.service"))
	settings := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if !unitLine.MatchString(line) {
			t.Errorf("systemd would not read %q", line)
		}
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			settings[name] = value
		}
	}
	line, found := strings.CutPrefix(settings["ExecStart"], "/usr/bin/replicator ")
	if err := parseCommand(line, false); err != nil || !found {
		t.Errorf("ExecStart=%s: %v", settings["ExecStart"], err)
	}
	if settings["Type"] != "notify" || settings["Restart"] != "on-failure" || settings["RestartPreventExitStatus"] != "2" {
		t.Errorf("got %v", settings)
	}
}

func TestImageIsTheProgramAlone(t *testing.T) {
	t.Parallel()
	text := readText(t, filepath.Join(deploy, "container", "Dockerfile"))
	_, last, _ := strings.Cut(text, "\nFROM scratch\n")
	var command []string
	for line := range strings.Lines(last) {
		if arguments, ok := strings.CutPrefix(line, "CMD "); ok {
			if err := json.Unmarshal([]byte(arguments), &command); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := parseCommand(strings.Join(command, " "), false); err != nil || len(command) == 0 {
		t.Errorf("CMD %v: %v", command, err)
	}
	if !strings.Contains(last, "\nUSER 65532:65532\n") || !strings.Contains(last, "\nENTRYPOINT [\"/replicator\"]\n") {
		t.Errorf("the last stage is\n%s", last)
	}
}

// TestReleaseNamesFilesThatThereAre: those below bin/ are made by the hooks that run first.
func TestReleaseNamesFilesThatThereAre(t *testing.T) {
	t.Parallel()
	var file struct {
		Builds []struct {
			Main  string
			Flags []string
		}
		Archives []struct{ Formats, Files []string }
		SBOMs    []struct{ Artifacts string }
		NFPMs    []struct {
			Formats  []string
			Contents []struct{ Src string }
		}
	}
	readYAML(t, filepath.Join(root, ".goreleaser.yaml"), &file)
	if len(file.Builds) != 1 || len(file.Archives) != 1 || len(file.SBOMs) != 1 || len(file.NFPMs) != 1 {
		t.Fatalf("got %+v", file)
	}
	names := slices.Concat([]string{file.Builds[0].Main}, file.Archives[0].Files)
	for _, c := range file.NFPMs[0].Contents {
		if c.Src != "" {
			names = append(names, c.Src)
		}
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "bin/") {
			mustExist(t, filepath.Join(root, strings.ReplaceAll(name, "**", "*")))
		}
	}
	got := slices.Concat(file.Builds[0].Flags, file.Archives[0].Formats, file.NFPMs[0].Formats)
	if want := []string{"-trimpath", "tar.gz", "deb", "rpm"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestEveryBuildIsStaticAndSaysItsVersion: a build that forgets the linker's flags calls itself dev.
func TestEveryBuildIsStaticAndSaysItsVersion(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Makefile", ".goreleaser.yaml", filepath.Join("deploy", "container", "Dockerfile")} {
		text := readText(t, filepath.Join(root, name))
		for _, flag := range []string{"CGO_ENABLED=0", "-trimpath", "-X main.version=", "-X main.commit="} {
			if !strings.Contains(text, flag) {
				t.Errorf("%s builds without %s", name, flag)
			}
		}
	}
}
