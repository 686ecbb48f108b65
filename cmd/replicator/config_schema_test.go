package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestSchemaOfTheConfigurationIsTrue compares config.schema.json, for editors, with the keys that the program reads; -update writes it.
// Its descriptions are those of config.example.yaml.
func TestSchemaOfTheConfigurationIsTrue(t *testing.T) {
	t.Parallel()
	file := filepath.Join("..", "..", "config.schema.json")
	var c config
	s := jsonSchema(section(configKeys(&c)), exampleNode(t))
	s["$schema"] = "http://json-schema.org/draft-07/schema#"
	s["title"] = "replicator's configuration"
	got, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (make it with -update)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the keys are: write it with go test ./cmd/replicator -run %s -update", file, t.Name())
	}
}

func exampleNode(t *testing.T) *yaml.Node {
	t.Helper()
	b, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	return doc.Content[0]
}

// jsonSchema describes a value; n is the example of it, which may be nil.
func jsonSchema(v value, n *yaml.Node) map[string]any {
	out := map[string]any{}
	switch v := v.(type) {
	case section:
		properties, required := map[string]any{}, []string{}
		for _, k := range v {
			properties[k.name] = jsonSchema(k.value, member(n, k.name))
			if k.required != "" {
				required = append(required, k.name)
			}
		}
		out["type"], out["properties"], out["additionalProperties"] = "object", properties, false
		if len(required) > 0 {
			out["required"] = required
		}
	case rules:
		var r tableRule
		out["type"], out["items"] = "array", jsonSchema(ruleKeys(&r), nil)
	case list:
		out["type"], out["items"], out["minItems"] = "array", map[string]any{"type": "string"}, v.least
	case mapping:
		out["type"], out["additionalProperties"] = "object", map[string]any{"type": "string"}
	case tlsSection:
		return jsonSchema(tlsKeys(v.p), n)
	case described:
		for k, x := range v.schema {
			out[k] = x
		}
	case scalar, secret:
		out["type"] = "string"
	}
	if n != nil && n.LineComment != "" {
		out["description"] = strings.TrimSpace(strings.TrimPrefix(n.LineComment, "#"))
	}
	return out
}
