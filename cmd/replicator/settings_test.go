package main

import (
	"reflect"
	"strings"
	"testing"

	"replicator/cmd/replicator/ops"
)

// TestSettingsShowNoSecret has a secret in every place that can hold one.
func TestSettingsShowNoSecret(t *testing.T) {
	t.Parallel()
	c, err := parseConfig("f.yaml", []byte(`
pipeline: shop
source:
  brokers:
    - a:1 # the first
    - b:2
  topics: ['shop\..*']
  registry: {url: 'http://u:s3cret@reg:8081', username: u, password: s3cret}
target: {url: 'postgres://u:s3cret@h:5432/d?sslmode=disable&sslpassword=s3cret'}
tables: [{match: 'a\..*', skip: true}]
checkpoint: {store: 'postgres://u:${PW}@h/d', rows: 10}
http: {token: s3cret}
log:
`), []string{"checkpoint.rows=20"}, func(string) (string, bool) { return "s3cret", true })
	if err != nil {
		t.Fatal(err)
	}
	want := []ops.Setting{
		{Key: "pipeline", Value: "shop"},
		{Key: "source.brokers", Value: "['a:1', 'b:2']"},
		{Key: "source.topics", Value: `['shop\..*']`},
		{Key: "source.registry.url", Value: "http://u@reg:8081"},
		{Key: "source.registry.username", Value: "u"},
		{Key: "source.registry.password", Value: "***"},
		{Key: "target.url", Value: "postgres://u@h:5432/d?sslmode=disable&sslpassword=xxx"},
		{Key: "tables", Value: `[{match: 'a\..*', skip: true}]`},
		{Key: "checkpoint.rows", Value: "20"},
		{Key: "checkpoint.store", Value: "postgres://u@h/d"},
		{Key: "http.token", Value: "***"},
	}
	if !reflect.DeepEqual(c.Settings, want) {
		t.Errorf("got\n%+v\nwant\n%+v", c.Settings, want)
	}
	for text, want := range map[string]string{
		"kafka://u:s3cr@et@a:1,b:2/t?mechanism=PLAIN": "kafka://u@a:1,b:2/t?mechanism=PLAIN", "kafka://a:1,b/t": "kafka://a:1,b/t", "kafka://u:s3cret@a:1": "***",
	} {
		if got := mask(text); got != want {
			t.Errorf("mask(%q) = %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{"not a url s3cret", "postgres://u:s3%zzcret@h/d", "host=h password=s3cret"} {
		if got := mask(text); strings.Contains(got, "cret") {
			t.Errorf("mask(%q) = %q", text, got)
		}
	}
}
