package main

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

// value reads the value of one key and notes in the document what is wrong with it, as flag.Value does for a flag.
type value interface {
	set(d *document, n *yaml.Node, path string)
}

// key is one key of a section.
type key struct {
	name     string
	value    value
	required string // why it must be there; empty: it has a default
}

// section is a mapping of known keys.
type section []key

func (s section) set(d *document, n *yaml.Node, path string) {
	n = resolve(n)
	if isNull(n) {
		return // a section whose every line is commented out
	}
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, "must be keys with values (%s), not %s", strings.Join(s.names(), ", "), describe(n))
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		full := join(path, name.Value)
		if line, again := seen[name.Value]; again {
			d.fail(name, full, "is here for the second time, the first was in line %d", line)
			continue
		}
		seen[name.Value] = name.Line
		if k := s.key(name.Value); k != nil {
			k.value.set(d, n.Content[i+1], full)
			continue
		}
		d.fail(name, full, "there is no such key; did you mean %s?", s.nearest(path, name.Value))
	}
}

func (s section) key(name string) *key {
	for i := range s {
		if s[i].name == name {
			return &s[i]
		}
	}
	return nil
}

func (s section) names() []string {
	names := make([]string, len(s))
	for i, k := range s {
		names[i] = k.name
	}
	return names
}

// nearest returns the full path of the key that was probably meant: one of this section that is a letter away, else one of
// that very name in another section, else the least different one of this section.
func (s section) nearest(path, name string) string {
	best := slices.MinFunc(s.names(), func(a, b string) int { return distance(a, name) - distance(b, name) })
	if distance(best, name) > 1 {
		var root config
		all := section(configKeys(&root))
		for _, p := range all.paths("") {
			if p[strings.LastIndexByte(p, '.')+1:] == name {
				return p
			}
		}
	}
	return join(path, best)
}

// paths returns the dotted paths of all keys that hold values.
func (s section) paths(prefix string) []string {
	var out []string
	for _, k := range s {
		if sub, ok := k.value.(section); ok {
			out = append(out, sub.paths(join(prefix, k.name))...)
			continue
		}
		out = append(out, join(prefix, k.name))
	}
	return out
}

// find returns what reads the key at a dotted path, or nil.
func (s section) find(path string) value {
	name, rest, deeper := strings.Cut(path, ".")
	k := s.key(name)
	if k == nil {
		return nil
	}
	if sub, ok := k.value.(section); ok && deeper {
		return sub.find(rest)
	}
	if deeper {
		return nil
	}
	return k.value
}

// require notes the keys that are missing.
func (d *document) require(root section) { d.requireIn(root, d.root, "") }

func (d *document) requireIn(s section, n *yaml.Node, path string) {
	for _, k := range s {
		var child *yaml.Node
		if n != nil && n.Kind == yaml.MappingNode {
			child = resolve(member(n, k.name))
		}
		if sub, ok := k.value.(section); ok {
			d.requireIn(sub, child, join(path, k.name))
		} else if k.required != "" && child == nil {
			d.missing(join(path, k.name), k.required)
		}
	}
}

func (d *document) missing(key, why string) {
	d.errs = append(d.errs, configError{where: d.file, line: math.MaxInt, key: key, msg: "is missing: " + why})
}

// scalar is a value that is one piece of text. Its error says what the text must be.
type scalar func(text string) error

func (f scalar) set(d *document, n *yaml.Node, path string) {
	n = resolve(n)
	if n.Kind != yaml.ScalarNode {
		d.fail(n, path, "must be a single value, not %s", describe(n))
		return
	}
	if isNull(n) {
		d.fail(n, path, "has no value; leave the key out for its default, or write '' for the empty text")
		return
	}
	if err := f(n.Value); err != nil {
		d.fail(n, path, "%q %v", d.text(n), err)
	}
}

// secret is a scalar whose text no error may show.
type secret func(text string) error

func (f secret) set(d *document, n *yaml.Node, path string) {
	scalar(func(string) error { return nil }).set(d, n, path)
	if n = resolve(n); n.Kind == yaml.ScalarNode && !isNull(n) {
		if err := f(n.Value); err != nil {
			d.fail(n, path, "%v", err)
		}
	}
}

func isScalar(v value) bool {
	switch v.(type) {
	case scalar, secret, described:
		return true
	}
	return false
}

// described is a scalar with what its JSON schema says of it.
type described struct {
	scalar
	schema map[string]any
}

// words is the JSON schema of one of some words. YAML takes some of them for numbers or booleans.
func words[T ~string](list []T) map[string]any {
	var out []any
	for _, w := range list {
		out = append(out, string(w))
		if n, err := strconv.Atoi(string(w)); err == nil {
			out = append(out, n)
		} else if b, err := strconv.ParseBool(string(w)); err == nil {
			out = append(out, b)
		}
	}
	return map[string]any{"enum": out}
}

// word is text that passes the checks.
func word(p *string, checks ...func(string) error) scalar {
	return func(s string) error {
		for _, check := range checks {
			if err := check(s); err != nil {
				return err
			}
		}
		*p = s
		return nil
	}
}

// oneOf is one of these words.
func oneOf[T ~string](p *T, values []T) described {
	return described{func(s string) error {
		if !slices.Contains(values, T(s)) {
			return fmt.Errorf("is none of its values; %s", mustBe(values))
		}
		*p = T(s)
		return nil
	}, words(values)}
}

func mustBe[T ~string](served []T) string {
	if len(served) == 1 {
		return fmt.Sprintf("it must be %s", served[0])
	}
	words := make([]string, len(served))
	for i, s := range served {
		words[i] = string(s)
	}
	last := len(words) - 1
	return fmt.Sprintf("it must be %s or %s", strings.Join(words[:last], ", "), words[last])
}

func boolean(p *bool) described {
	return described{func(s string) error {
		switch strings.ToLower(s) {
		case "true":
			*p = true
		case "false":
			*p = false
		default:
			return fmt.Errorf("must be true or false")
		}
		return nil
	}, map[string]any{"type": "boolean"}}
}

func integer(p *int, least int) described {
	return described{func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < least {
			return fmt.Errorf("must be a whole number of at least %d", least)
		}
		*p = n
		return nil
	}, map[string]any{"type": "integer", "minimum": least}}
}

func between(p *int, least, most int) scalar {
	return func(s string) error {
		n, err := strconv.Atoi(s)
		if err != nil || n < least || n > most {
			return fmt.Errorf("must be a whole number from %d to %d", least, most)
		}
		*p = n
		return nil
	}
}

func duration(p *time.Duration, least time.Duration) scalar {
	return func(s string) error {
		t, err := time.ParseDuration(s)
		if err != nil || t < least {
			return fmt.Errorf("must be a duration of at least %v, with a unit: 500ms, 1s, 2m", least)
		}
		*p = t
		return nil
	}
}

// sizeUnits are bytes a unit, longest suffix first.
var sizeUnits = []struct {
	suffix string
	bytes  int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
	{"", 1},
}

// size is a number of bytes, of at least 1.
func size(p *int64) described {
	return described{func(s string) error {
		for _, u := range sizeUnits {
			digits, ok := strings.CutSuffix(s, u.suffix)
			if !ok {
				continue
			}
			n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
			if err == nil && n >= 1 && n <= math.MaxInt64/u.bytes {
				*p = n * u.bytes
				return nil
			}
			break
		}
		return fmt.Errorf("must be a size in bytes of at least 1: 64MiB, 1GiB, 500kB, 1048576")
	}, map[string]any{"type": []string{"string", "integer"}}}
}

// list is a list of texts, each of them checked.
type list struct {
	p     *[]string
	least int
	check func(string) error
}

func (l list) set(d *document, n *yaml.Node, path string) {
	n = resolve(n)
	if n.Kind != yaml.SequenceNode {
		d.fail(n, path, "must be a list, as in [a, b], not %s", describe(n))
		return
	}
	if len(n.Content) < l.least {
		d.fail(n, path, "needs at least one element")
		return
	}
	out := make([]string, 0, len(n.Content))
	for i, e := range n.Content {
		scalar(func(s string) error {
			out = append(out, s)
			return l.check(s)
		}).set(d, e, fmt.Sprintf("%s[%d]", path, i))
	}
	*l.p = out
}

// mapping is texts by texts, both of them checked.
type mapping struct {
	p     *map[string]string
	check func(string) error
}

func (m mapping) set(d *document, n *yaml.Node, path string) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		d.fail(n, path, "must be keys with values, as in {a: b}, not %s", describe(n))
		return
	}
	out := make(map[string]string, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i].Value
		if _, again := out[name]; again {
			d.fail(n.Content[i], join(path, name), "is here for the second time")
		}
		scalar(func(s string) error {
			out[name] = s
			return m.check(s)
		}).set(d, n.Content[i+1], join(path, name))
	}
	if len(out) > 0 {
		*m.p = out
	}
}

// expression checks a regular expression. It is anchored where it is used.
func expression(s string) error {
	if s == "" {
		return fmt.Errorf("is empty and matches nothing")
	}
	if _, err := regexp.Compile("^(?:" + s + ")$"); err != nil {
		return fmt.Errorf("is no regular expression: %w", err)
	}
	return nil
}

// resolve follows a YAML alias.
func resolve(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "keys with values"
	case yaml.SequenceNode:
		return "a list"
	}
	if isNull(n) {
		return "nothing"
	}
	return "a single value"
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// distance is the number of letters to insert, remove, replace or swap that makes a into b.
func distance(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range rows[0] {
		rows[0][j] = j
	}
	for i := 1; i <= len(a); i++ {
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			best := min(rows[i-1][j]+1, rows[i][j-1]+1, rows[i-1][j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				best = min(best, rows[i-2][j-2]+1)
			}
			rows[i][j] = best
		}
	}
	return rows[len(a)][len(b)]
}
