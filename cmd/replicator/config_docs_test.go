package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestTableOfTheConfigurationIsTrue compares the table of docs/configuration.md with the keys that the program reads; -update writes it.
// Defaults and meanings are those of config.example.yaml, which other tests hold against the program.
func TestTableOfTheConfigurationIsTrue(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "docs", "configuration.md")
	text := readText(t, file)
	head, _, found := strings.Cut(text, goldenMark)
	if !found {
		t.Fatalf("%s has no line %q", file, goldenMark)
	}
	var c config
	var rule tableRule
	table := new(strings.Builder)
	table.WriteString(head + goldenMark + "\n\n| key | default | values | meaning |\n|---|---|---|---|\n")
	writeKeys(table, section(configKeys(&c)), exampleNode(t), "")
	writeKeys(table, ruleKeys(&rule), exampleRule(t), "tables[].")
	got := table.String()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := readText(t, file); got != want {
		t.Errorf("%s is not what the keys are: write it with go test ./cmd/replicator -run %s -update", file, t.Name())
	}
}

const goldenMark = "<!-- The table is written by a test: make golden. -->"

func writeKeys(w *strings.Builder, keys section, n *yaml.Node, prefix string) {
	for _, k := range keys {
		v := member(n, k.name)
		if sub, ok := k.value.(section); ok {
			writeKeys(w, sub, v, prefix+k.name+".")
			continue
		}
		def := "—"
		switch {
		case k.required != "":
		case strings.HasPrefix(prefix, "tables[]."):
			def = "" // the example shows a rule that does something
		default:
			def = defaultOf(v)
		}
		fmt.Fprintf(w, "| `%s%s` | %s | %s | %s |\n", prefix, k.name, def, valuesOf(k.value), cell(meaningOf(n, v, k.name)))
	}
}

// exampleRule returns the rule of config.example.yaml, which is there as a comment.
func exampleRule(t *testing.T) *yaml.Node {
	t.Helper()
	_, rest, found := strings.Cut(readText(t, example), "tables: []")
	if !found {
		t.Fatal("the example has no rules")
	}
	var rule strings.Builder
	for line := range strings.Lines(rest) {
		if line, is := strings.CutPrefix(line, "#> "); is {
			rule.WriteString(line)
		} else if rule.Len() > 0 {
			break
		}
	}
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(rule.String()), &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Content[0].Content[0]
}

// defaultOf is a value of the example as people write it.
func defaultOf(n *yaml.Node) string {
	if n == nil || n.Value == "" {
		return ""
	}
	return "`" + n.Value + "`"
}

// valuesOf says what a value may be, as far as its JSON schema does.
func valuesOf(v value) string {
	s := jsonSchema(v, nil)
	if list, ok := s["enum"].([]any); ok {
		var words []string
		for _, w := range list {
			if w, ok := w.(string); ok { // a number or a bool is there as a text too
				words = append(words, "`"+w+"`")
			}
		}
		return strings.Join(words, ", ")
	}
	switch s["type"] {
	case "boolean":
		return "`true`, `false`"
	case "integer":
		if s["maximum"] != nil {
			return fmt.Sprintf("%v to %v", s["minimum"], s["maximum"])
		}
		return fmt.Sprintf("from %v", s["minimum"])
	case "array":
		return "list"
	case "object":
		return "map"
	}
	return ""
}

// meaningOf returns the comment of a key, or of the line that a key within braces is on.
func meaningOf(parent, n *yaml.Node, name string) string {
	comment := ""
	if n != nil {
		comment = n.LineComment
	}
	if parent != nil && comment == "" {
		for _, key := range parent.Content {
			if key.Value == name && key.LineComment != "" {
				comment = key.LineComment
			}
		}
		if comment == "" {
			comment = parent.LineComment
		}
	}
	return strings.TrimSpace(strings.TrimPrefix(comment, "#"))
}
