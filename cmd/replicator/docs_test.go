package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

var root = filepath.Join("..", "..")

// documents returns the documentation that users read: file → text.
func documents(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	docs := map[string]string{}
	for _, file := range append(files, filepath.Join(root, "README.md"), filepath.Join(root, "CONTRIBUTING.md")) {
		docs[filepath.Base(file)] = readText(t, file)
	}
	return docs
}

func readText(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var (
	fenced = regexp.MustCompile("(?ms)^ *```([a-z]*)[^\n]*\n(.*?)^ *```$")
	quoted = regexp.MustCompile("`(replicator [^`]+)`")
	// invoked finds the program in a line of shell, also where another command starts it, and what it is given.
	invoked = regexp.MustCompile(`(?:^|[ /])replicator ((?:[a-z]|--)[^|;&>#]*)`)
	makes   = regexp.MustCompile(`(?m)^(?:\$ )?make ([a-z0-9-]+)`)
	target  = regexp.MustCompile(`(?m)^([a-z0-9-]+):.*##`)
)

// TestCommandsInTheDocumentationAreThere gives every command line of the documentation to the command tree, which parses it and does not run it.
func TestCommandsInTheDocumentationAreThere(t *testing.T) {
	t.Parallel()
	var targets []string
	for _, m := range target.FindAllStringSubmatch(readText(t, filepath.Join(root, "Makefile")), -1) {
		targets = append(targets, m[1])
	}
	parsed := 0
	for name, text := range documents(t) {
		var lines, mentions []string
		for _, block := range fenced.FindAllStringSubmatch(text, -1) {
			if block[1] != "" && block[1] != "sh" {
				continue
			}
			body := strings.ReplaceAll(block[2], "\\\n", " ")
			for line := range strings.Lines(body) {
				if m := invoked.FindStringSubmatch(line); m != nil && !strings.HasPrefix(strings.TrimSpace(line), "#") {
					lines = append(lines, m[1])
				}
			}
			for _, m := range makes.FindAllStringSubmatch(body, -1) {
				if !slices.Contains(targets, m[1]) {
					t.Errorf("%s: the Makefile has no target %s", name, m[1])
				}
			}
		}
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			mentions = append(mentions, strings.TrimPrefix(m[1], "replicator "))
		}
		for i, line := range slices.Concat(lines, mentions) {
			parsed++
			if err := parseCommand(line, i >= len(lines)); err != nil {
				t.Errorf("%s: replicator %s: %v", name, strings.TrimSpace(line), err)
			}
		}
	}
	if parsed < 30 {
		t.Errorf("%d commands were found: is the expression that finds them right?", parsed)
	}
}

// parseCommand says what cobra would say of a command line. A mention of a command in a sentence may leave its arguments out.
func parseCommand(line string, mention bool) error {
	words := strings.Fields(line)
	for i, w := range words {
		if words[i] = strings.Trim(w, `'"`); words[i] == "ID" {
			words[i] = "1"
		}
	}
	root := (&app{}).root()
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(words)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return err
	}
	if args := cmd.Flags().Args(); len(args) > 0 || !mention {
		return cmd.ValidateArgs(args)
	}
	return nil
}

// TestCommandsThatAreNotThereAreFound keeps the test above from passing everything.
func TestCommandsThatAreNotThereAreFound(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"runs --config x", "run --confg x", "run --from x", "checkpoints lost", "run x", "checkpoints show --config x"} {
		if parseCommand(line, false) == nil {
			t.Errorf("replicator %s passes", line)
		}
	}
}

// TestConfigurationsInTheDocumentationAreAccepted gives every YAML block of the documentation to the parser, with what must be set besides.
func TestConfigurationsInTheDocumentationAreAccepted(t *testing.T) {
	t.Parallel()
	for name, text := range documents(t) {
		for _, block := range fenced.FindAllStringSubmatch(text, -1) {
			if block[1] != "yaml" {
				continue
			}
			if _, err := parseConfig(name, []byte(completed(t, block[2])), nil, anySecret); err != nil {
				t.Errorf("%v\n%s", err, block[2])
			}
		}
	}
}

// anySecret is an environment that has everything.
func anySecret(string) (string, bool) { return "secret", true }

// completed is a part of a configuration, with the keys of minimal that it lacks.
func completed(t *testing.T, part string) string {
	t.Helper()
	var got, least map[string]any
	for text, into := range map[string]*map[string]any{part: &got, minimal: &least} {
		if err := yaml.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
	}
	if source, ok := got["source"].(map[string]any); ok {
		maps.Copy(least["source"].(map[string]any), source)
		got["source"] = least["source"]
	}
	maps.Copy(least, got)
	out, err := yaml.Marshal(least)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

var mentioned = regexp.MustCompile(`\b(?:docs|deploy|e2e)/[A-Za-z0-9_@./-]*[A-Za-z0-9]`)

func TestFilesThatTheDocumentationNamesAreThere(t *testing.T) {
	t.Parallel()
	for name, text := range documents(t) {
		for _, file := range mentioned.FindAllString(text, -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// message is a heading of troubleshooting.md: what the program says, with … where it puts something in.
var message = regexp.MustCompile("(?m)^### `(.+)`$")

var namesTest = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")

// TestTestsThatTheDocumentationNamesAreThere: a promise that names the test that shows it must not outlive the test.
func TestTestsThatTheDocumentationNamesAreThere(t *testing.T) {
	t.Parallel()
	functions := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && strings.HasPrefix(d.Name(), ".") && file != root:
			return filepath.SkipDir
		case !strings.HasSuffix(file, "_test.go"):
			return nil
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(readText(t, file), -1) {
			functions[m[1]] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for name, text := range documents(t) {
		for _, m := range namesTest.FindAllStringSubmatch(text, -1) {
			named++
			if !functions[m[1]] {
				t.Errorf("%s: there is no test %s", name, m[1])
			}
		}
	}
	if named == 0 {
		t.Error("no test is named")
	}
}

// TestMessagesOfTroubleshootingAreInTheProgram looks for every message of the document among the texts of the source.
func TestMessagesOfTroubleshootingAreInTheProgram(t *testing.T) {
	t.Parallel()
	texts := texts(t)
	messages := message.FindAllStringSubmatch(readText(t, filepath.Join(root, "docs", "troubleshooting.md")), -1)
	if len(messages) < 20 {
		t.Errorf("%d messages were found: is the expression that finds them right?", len(messages))
	}
	for _, m := range messages {
		if !slices.ContainsFunc(texts, func(text string) bool { return says(text, m[1]) }) {
			t.Errorf("no text of the program is %q", m[1])
		}
	}
}

// says says whether a text holds the pieces of a message in their order.
func says(text, message string) bool {
	for piece := range strings.SplitSeq(message, "…") {
		_, after, found := strings.Cut(text, strings.TrimSpace(piece))
		if !found {
			return false
		}
		text = after
	}
	return true
}

// texts returns the string expressions of the program's source: literals, and sums of them with … for what is no literal.
func texts(t *testing.T) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ImportSpec:
				return false
			case *ast.BinaryExpr:
				out = append(out, sum(n))
				return false
			case *ast.BasicLit:
				out = append(out, sum(n))
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func sum(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BinaryExpr:
		return sum(e.X) + sum(e.Y)
	case *ast.BasicLit:
		if text, err := strconv.Unquote(e.Value); err == nil {
			return text
		}
	}
	return "…"
}
