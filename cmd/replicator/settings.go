package main

import (
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"replicator/cmd/replicator/ops"
)

// masked stands for a secret.
const masked = "***"

// settings lists what the file and the overrides set, in the order of config.example.yaml, for people to see: no secret is in it.
func settings(keys section, n *yaml.Node, path string) []ops.Setting {
	var out []ops.Setting
	for _, k := range keys {
		v := member(n, k.name)
		if v == nil || isNull(resolve(v)) {
			continue
		}
		v = resolve(v)
		at := join(path, k.name)
		switch kind := k.value.(type) {
		case section:
			out = append(out, settings(kind, v, at)...)
		case secret:
			out = append(out, ops.Setting{Key: at, Value: mask(v.Value)})
		default:
			out = append(out, ops.Setting{Key: at, Value: redact(inline(v))})
		}
	}
	return out
}

// mask returns what may be shown of a key's value that may be a secret: of a URL all but its password and its query's values, of
// another nothing, unless it is a place.
func mask(s string) string {
	if s == "" || s == "target" || strings.HasPrefix(s, "file:") {
		return s
	}
	if isKafka(s) {
		return maskKafka(s)
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme == "" || u.Host == "" {
		return masked
	}
	if _, has := u.User.Password(); has {
		u.User = url.User(u.User.Username())
	}
	query := u.Query()
	for name := range query {
		if !slices.Contains(shownParameters, name) {
			query.Set(name, "xxx")
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// shownParameters of a URL hold no secret.
var shownParameters = []string{"sslmode", "application_name", "connect_timeout"}

// inline writes a value in one line.
func inline(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	flow := bare(n)
	flow.Style = yaml.FlowStyle
	text, err := yaml.Marshal(flow)
	if err != nil {
		return "(" + err.Error() + ")"
	}
	return strings.Join(strings.Fields(string(text)), " ")
}

// bare copies a node without the comments on it and below.
func bare(n *yaml.Node) *yaml.Node {
	c := *n
	c.HeadComment, c.LineComment, c.FootComment = "", "", ""
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, below := range n.Content {
		c.Content[i] = bare(below)
	}
	return &c
}
