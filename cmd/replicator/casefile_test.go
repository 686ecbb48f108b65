package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"replicator/txnsink/postgres/pgserver"
)

// caseFile is one file of testdata/cases; its README says what the fields mean.
type caseFile struct {
	kind   string // which part of what differs by target: postgres or mysql
	ID     string
	Target string
	Setup  yaml.Node `yaml:"setup_sql"`
	Events []struct {
		Topic     string
		Partition int32
		Headers   yaml.Node
		Key       yaml.Node
		Value     yaml.Node
		KeyHex    string `yaml:"key_hex"`
		ValueHex  string `yaml:"value_hex"`
		ValueRaw  string `yaml:"value_raw"`
	}
	Registry map[int]yaml.Node // Avro schemas by id
	Expect   yaml.Node
}

// caseRecord is one event as it goes to the broker; nil is Kafka's null.
type caseRecord struct {
	topic      string
	partition  int32
	headers    map[string][]byte
	key, value []byte
}

// caseResult is what the target must hold afterwards.
type caseResult struct {
	Error *struct {
		Class string
	}
	Query string
	Rows  [][]*string
}

func loadCase(t *testing.T, number string) *caseFile {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "cases", number+"-*.yaml"))
	if err != nil || len(files) != 1 {
		t.Fatalf("case %s: files %v, error %v", number, files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	c := &caseFile{kind: "postgres"}
	if err := yaml.Unmarshal(b, c); err != nil {
		t.Fatalf("%s: %v", files[0], err)
	}
	return c
}

// setup returns the statements for the target, with "current" replaced by the database's name.
func (c *caseFile) setup(t *testing.T, database string) string {
	t.Helper()
	var sql string
	node := c.byTarget(&c.Setup)
	if node == nil {
		return ""
	}
	if err := node.Decode(&sql); err != nil {
		t.Fatalf("%s: setup_sql: %v", c.ID, err)
	}
	return strings.ReplaceAll(sql, "ALTER DATABASE current ", "ALTER DATABASE "+database+" ")
}

// byTarget picks the target's part of a node that may be a map by target.
func (c *caseFile) byTarget(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			if n.Content[i].Value == c.kind {
				return n.Content[i+1]
			}
		}
	}
	if n.Kind == 0 {
		return nil
	}
	return n
}

// result reads expect, or the member of it called part.
func (c *caseFile) result(t *testing.T, part string) caseResult {
	t.Helper()
	n := c.byTarget(&c.Expect)
	if part != "" {
		n = member(n, part)
	}
	var r caseResult
	if n == nil {
		t.Fatalf("%s: no expectation %q", c.ID, part)
	}
	if err := n.Decode(&r); err != nil {
		t.Fatalf("%s: expect: %v", c.ID, err)
	}
	return r
}

// records returns the events as they go to the broker.
func (c *caseFile) records(t *testing.T) []caseRecord {
	t.Helper()
	var out []caseRecord
	for _, e := range c.Events {
		r := caseRecord{topic: e.Topic, partition: e.Partition, headers: map[string][]byte{}}
		r.key, r.value = jsonBytes(t, &e.Key), jsonBytes(t, &e.Value)
		if e.KeyHex != "" {
			r.key, r.value = hexBytes(t, e.KeyHex), hexBytes(t, e.ValueHex)
		}
		if e.ValueRaw != "" {
			r.value = []byte(e.ValueRaw)
		}
		for i := 0; i+1 < len(e.Headers.Content); i += 2 {
			r.headers[e.Headers.Content[i].Value] = jsonBytes(t, e.Headers.Content[i+1])
		}
		out = append(out, r)
	}
	return out
}

func hexBytes(t *testing.T, digits string) []byte {
	t.Helper()
	b, err := hex.DecodeString(digits)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// jsonBytes writes a node as JSON, members in their order and numbers digit by digit. A null is nil.
func jsonBytes(t *testing.T, n *yaml.Node) []byte {
	t.Helper()
	if n.Kind == 0 || n.Tag == "!!null" {
		return nil
	}
	var b bytes.Buffer
	if err := writeJSON(&b, n); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func writeJSON(b *bytes.Buffer, n *yaml.Node) error {
	switch n.Kind {
	case yaml.AliasNode:
		return writeJSON(b, n.Alias)
	case yaml.MappingNode, yaml.SequenceNode:
		return writeNested(b, n)
	case yaml.ScalarNode:
		switch n.Tag {
		case "!!null":
			b.WriteString("null")
		case "!!int", "!!float", "!!bool":
			b.WriteString(n.Value)
		default:
			s, err := json.Marshal(n.Value)
			if err != nil {
				return err
			}
			b.Write(s)
		}
		return nil
	}
	return fmt.Errorf("line %d: not JSON", n.Line)
}

func writeNested(b *bytes.Buffer, n *yaml.Node) error {
	brackets, step := "[]", 1
	if n.Kind == yaml.MappingNode {
		brackets, step = "{}", 2
	}
	b.WriteByte(brackets[0])
	for i := 0; i < len(n.Content); i += step {
		if i > 0 {
			b.WriteByte(',')
		}
		if step == 2 {
			s, err := json.Marshal(n.Content[i].Value)
			if err != nil {
				return err
			}
			b.Write(s)
			b.WriteByte(':')
		}
		if err := writeJSON(b, n.Content[i+step-1]); err != nil {
			return err
		}
	}
	b.WriteByte(brackets[1])
	return nil
}

// newCaseRun makes a database and runs the case's set-up in it.
func newCaseRun(t *testing.T, c *caseFile) *caseRun {
	t.Helper()
	return newCaseRunOn(t, world.server, c)
}

func newCaseRunOn(t *testing.T, server *pgserver.Server, c *caseFile) *caseRun {
	t.Helper()
	name := "case_" + strings.ToLower(regexp.MustCompile(`[^A-Za-z0-9]+`).ReplaceAllString(t.Name(), "_"))
	if len(name) > 50 {
		name = name[:40] + fmt.Sprintf("_%08x", hash(name))
	}
	if err := server.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	url := server.URL(name)
	r := &caseRun{caseFile: c, url: url, target: url, config: map[string]string{}}
	if sql := c.setup(t, name); sql != "" {
		r.exec(t, sql)
	}
	return r
}
