package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is a configuration file while it is being read: YAML nodes, where they came from, and what is wrong with them.
type document struct {
	file   string
	root   *yaml.Node
	origin map[*yaml.Node]string // for nodes that are not from the file: the flag that they are from
	raw    map[*yaml.Node]string // a scalar's text before ${NAME} was replaced in it, which is what an error shows
	errs   []configError
}

// configError is one thing that is wrong with a configuration.
type configError struct {
	where string // file:line, or the flag
	line  int
	key   string // dotted; empty: the file as a whole
	msg   string
}

func (e configError) Error() string {
	if e.key == "" {
		return e.where + ": " + e.msg
	}
	return e.where + ": " + e.key + ": " + e.msg
}

func parseDocument(file string, text []byte) (*document, error) {
	d := &document{file: file, origin: map[*yaml.Node]string{}, raw: map[*yaml.Node]string{}}
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	err := dec.Decode(&doc)
	switch {
	case errors.Is(err, io.EOF): // nothing but comments
		d.root = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		return d, nil
	case err != nil:
		return nil, notYAML(file, text, err)
	}
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, configError{where: file, msg: "more than one YAML document; a pipeline has one file of its own"}
	}
	d.root = doc.Content[0]
	return d, nil
}

// yamlLine is the beginning of the YAML package's errors. It leaves the line out when it is 0.
var yamlLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// countedFromZero begins those of its errors whose line is one less than people count.
const countedFromZero = "did not find expected "

// notYAML names file and line of an error of the YAML package.
func notYAML(file string, text []byte, err error) error {
	m := yamlLine.FindStringSubmatch(err.Error())
	if m == nil {
		return configError{where: file, msg: "this is no YAML: " + err.Error()}
	}
	line, what := 0, strings.TrimPrefix(err.Error(), m[0])
	if m[1] != "" {
		if line, err = strconv.Atoi(m[1]); err != nil {
			return configError{where: file, msg: "this is no YAML: " + what}
		}
	}
	if strings.HasPrefix(what, countedFromZero) {
		line++
	}
	last := bytes.Count(bytes.TrimRight(text, "\n"), []byte("\n")) + 1
	return configError{where: fmt.Sprintf("%s:%d", file, max(1, min(line, last))), msg: "this is no YAML: " + what}
}

// fail notes that the value at n is wrong.
func (d *document) fail(n *yaml.Node, key, format string, args ...any) {
	where, ok := d.origin[n]
	if !ok {
		where = fmt.Sprintf("%s:%d", d.file, n.Line)
	}
	d.errs = append(d.errs, configError{where: where, line: n.Line, key: key, msg: fmt.Sprintf(format, args...)})
}

// err returns everything that was noted, in the order of the file.
func (d *document) err() error {
	slices.SortStableFunc(d.errs, func(a, b configError) int { return cmp.Compare(a.line, b.line) })
	errs := make([]error, len(d.errs))
	for i, e := range d.errs {
		errs[i] = e
	}
	return errors.Join(errs...)
}

// text is a scalar as an error shows it: as it was written, without what came from the environment.
func (d *document) text(n *yaml.Node) string {
	if raw, ok := d.raw[n]; ok {
		return raw
	}
	return n.Value
}

// placeholder is ${NAME}; $${NAME} stands for the text ${NAME} itself.
var placeholder = regexp.MustCompile(`\$?\$\{([^}]*)\}`)

// variableName is what stands between the braces.
var variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// expand replaces ${NAME} in every scalar value below n. Keys are left alone, and a value never becomes structure: it is
// replaced after the file was parsed.
func (d *document) expand(n *yaml.Node, getenv func(string) (string, bool)) {
	switch n.Kind {
	case yaml.MappingNode:
		for i := 1; i < len(n.Content); i += 2 {
			d.expand(n.Content[i], getenv)
		}
	case yaml.SequenceNode:
		for _, e := range n.Content {
			d.expand(e, getenv)
		}
	case yaml.ScalarNode:
		if strings.Contains(n.Value, "${") {
			d.expandScalar(n, getenv)
		}
	}
}

func (d *document) expandScalar(n *yaml.Node, getenv func(string) (string, bool)) {
	raw := n.Value
	d.raw[n] = raw
	// A URL's user and password take a value as it is: what is special in a URL is escaped.
	from, to := strings.Index(raw, "://"), strings.LastIndex(raw, "@")
	var out strings.Builder
	end := 0
	for _, m := range placeholder.FindAllStringSubmatchIndex(raw, -1) {
		out.WriteString(raw[end:m[0]])
		end = m[1]
		name := raw[m[2]:m[3]]
		if strings.HasPrefix(raw[m[0]:], "$$") {
			out.WriteString(raw[m[0]+1 : m[1]])
			continue
		}
		value, ok := getenv(name)
		switch {
		case !variableName.MatchString(name):
			d.fail(n, "", "${%s} is not the name of an environment variable; write $${ for the text ${ itself", name)
		case !ok:
			d.fail(n, "", "${%s}: the environment has no variable of that name; set it, or write $${%s} for the text itself", name, name)
		case from >= 0 && from < m[0] && m[1] <= to:
			out.WriteString(strings.ReplaceAll(url.QueryEscape(value), "+", "%20"))
		default:
			out.WriteString(value)
		}
	}
	out.WriteString(raw[end:])
	n.Value, n.Tag = out.String(), "!!str"
}

// override sets one key: KEY.PATH=VALUE. The value of a key that holds a single value is taken as it is, another one is YAML.
func (d *document) override(root section, assignment string) error {
	path, text, ok := strings.Cut(assignment, "=")
	flag := "--set " + path
	if !ok || path == "" {
		return configError{where: "--set " + redact(assignment), msg: "must be KEY.PATH=VALUE, as in --set checkpoint.rows=1000"}
	}
	value := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if v := root.find(path); v != nil && !isScalar(v) {
		var doc yaml.Node
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) == 0 {
			return configError{where: flag, msg: "the value must be YAML, as in ['a', 'b']"}
		}
		value = doc.Content[0]
	}
	d.mark(value, flag)
	n := d.root
	names := strings.Split(path, ".")
	for i, name := range names {
		if n.Kind != yaml.MappingNode {
			return configError{where: flag, msg: strings.Join(names[:i], ".") + " holds no keys that could be set one by one; set it whole, as in --set tables='[{match: a, skip: true}]'"}
		}
		last := i == len(names)-1
		next := member(n, name)
		switch {
		case last && next != nil:
			*next = *value
			d.mark(next, flag)
		case last:
			n.Content = append(n.Content, d.mark(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, flag), value)
		case next == nil || isNull(next):
			made := d.mark(&yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}, flag)
			if next != nil {
				*next = *made
				made = next
			} else {
				n.Content = append(n.Content, d.mark(&yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: name}, flag), made)
			}
			n = made
		default:
			n = next
		}
	}
	return nil
}

// mark notes that n and all below it are from a flag.
func (d *document) mark(n *yaml.Node, flag string) *yaml.Node {
	d.origin[n] = flag
	for _, c := range n.Content {
		d.mark(c, flag)
	}
	return n
}

// member returns the value of a key of n, or nil: also where n is no mapping.
func member(n *yaml.Node, name string) *yaml.Node {
	for i := 0; n != nil && n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}
