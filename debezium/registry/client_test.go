package registry_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
	"replicator/debezium/registry"
)

func wire(id int64) debezium.SchemaID { return debezium.SchemaID{Kind: debezium.WireID, ID: id} }

// serve returns a client of a registry that answers so.
func serve(t *testing.T, c registry.Config, answer http.HandlerFunc) *registry.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c.URL = strings.Replace(c.URL, "SERVER", strings.TrimPrefix(server.URL, "http://"), 1)
	client, err := registry.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// confluent is a registry with one schema, 7, that answers other paths as Confluent's does.
func confluent(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/base/schemas/ids/7" {
			w.WriteHeader(http.StatusNotFound)
			body := `{"error_code":40403,"message":"Schema 8 not found"}`
			if _, err := w.Write([]byte(body)); err != nil {
				return
			}
			return
		}
		if _, err := w.Write([]byte(body)); err != nil {
			return
		}
	}
}

func TestConfluentAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		body string
		id   debezium.SchemaID
		want string // a schema, or what an error that wraps ErrNoSchema says
	}{
		{`{"schema":"\"int\""}`, wire(7), `"int"`},
		{`{"schema":"\"int\"","schemaType":"AVRO","references":[]}`, wire(7), `"int"`},
		{`{"schema":"\"int\""}`, wire(8), `404 Not Found to http://`},
		{`{"schema":"\"int\""}`, wire(8), `("Schema 8 not found"); is source.registry.url the registry`},
		{`{"schema":"{}","schemaType":"JSON"}`, wire(7), `of type "JSON"`},
		{`{"schema":"\"a.B\"","references":[{"name":"a.B"}]}`, wire(7), "refers to other subjects"},
		{`{"schema":"\"int\""}`, debezium.SchemaID{Kind: debezium.LongID, ID: 7}, "only Apicurio has such ids"},
		{`{"schema":"\"int\""}`, debezium.SchemaID{Kind: debezium.GlobalID, ID: 7}, "only Apicurio has such ids"},
		{strings.Repeat(" ", 17<<20), wire(7), "more than 16777216 bytes"},
	} {
		client := serve(t, registry.Config{URL: "http://SERVER/base/"}, confluent(c.body))
		found, err := client.Schema(t.Context(), c.id, "t")
		got := found.Text
		if err != nil {
			if got = err.Error(); !errors.Is(err, debezium.ErrNoSchema) {
				t.Errorf("%.60s: got error %v, want one that is ErrNoSchema", c.body, err)
			}
		}
		if !strings.Contains(got, c.want) {
			t.Errorf("%.60s: got %s, want %s", c.body, got, c.want)
		}
	}
}

// TestProtobufBringsWhatItRefersTo: files refer to files, and two to the same.
func TestProtobufBringsWhatItRefersTo(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/base/schemas/ids/7":                 `{"schema":"main","schemaType":"PROTOBUF","references":[{"name":"a/b.proto","subject":"a/b.proto","version":2},{"name":"c.proto","subject":"c","version":1}]}`,
		"/base/subjects/a/b.proto/versions/2": `{"schema":"b","schemaType":"PROTOBUF","references":[{"name":"c.proto","subject":"c","version":1}]}`,
		"/base/subjects/c/versions/1":         `{"schema":"c","schemaType":"PROTOBUF"}`,
		"/base/schemas/ids/8":                 `{"schema":"main","schemaType":"PROTOBUF","references":[{"name":"gone","subject":"gone","version":1}]}`,
	}
	client := serve(t, registry.Config{URL: "http://SERVER/base"}, func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.Path]
		if strings.HasPrefix(r.URL.Path, "/base/subjects/a") && r.URL.EscapedPath() != "/base/subjects/a%2Fb.proto/versions/2" {
			ok = false // a slash within a subject is no slash of the path
		}
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Error(err)
		}
	})
	want := debezium.Registered{Format: debezium.Protobuf, Text: "main", Imports: map[string]string{"a/b.proto": "b", "c.proto": "c"}}
	if got, err := client.Schema(t.Context(), wire(7), "t"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
	if _, err := client.Schema(t.Context(), wire(8), "t"); !errors.Is(err, debezium.ErrNoSchema) || !strings.Contains(err.Error(), `what it refers to as "gone"`) {
		t.Errorf("got error %v, want one that is ErrNoSchema and names what is gone", err)
	}
}

// TestReferencesHaveABound: a registry that answers with ever more of them is not asked for ever.
func TestReferencesHaveABound(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	client := serve(t, registry.Config{URL: "http://SERVER"}, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/apis/") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		n := asked.Add(1)
		if _, err := fmt.Fprintf(w, `{"schema":"","schemaType":"PROTOBUF","references":[{"name":"%d","subject":"s","version":1}]}`, n); err != nil {
			t.Error(err)
		}
	})
	if _, err := client.Schema(t.Context(), wire(7), "t"); !errors.Is(err, debezium.ErrNoSchema) || !strings.Contains(err.Error(), "more than 100 others") {
		t.Errorf("got error %v, want one of the bound", err)
	}
}

// TestApicuriosProtobufIsKnownByItsText: its own API does not say what a schema is.
func TestApicuriosProtobufIsKnownByItsText(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/apis/registry/v2/system/info":      `{"name":"Apicurio Registry (In Memory)"}`,
		"/apis/registry/v2/ids/globalIds/7":  "syntax = \"proto3\";\npackage b.shop.t;\n",
		"/apis/registry/v2/ids/contentIds/7": "syntax = \"proto3\";\npackage a.shop.t;\n",
	}
	client := serve(t, registry.Config{URL: "http://SERVER/apis/ccompat/v7"}, func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Error(err)
		}
	})
	want := debezium.Registered{Format: debezium.Protobuf, Text: answers["/apis/registry/v2/ids/contentIds/7"]}
	if got, err := client.Schema(t.Context(), wire(7), "a.shop.t"); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
}

func TestFailingRegistryIsAskedAgain(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	client := serve(t, registry.Config{URL: "http://SERVER/base"}, func(w http.ResponseWriter, r *http.Request) {
		if n := asked.Add(1); n == 1 || n == 2 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		confluent(`{"schema":"\"int\""}`)(w, r)
	})
	if got, err := client.Schema(t.Context(), wire(7), "t"); got.Text != `"int"` {
		t.Errorf("got %+v, error %v", got, err)
	}
}

// TestEndedContextEndsTheWait: a run that stops does not wait for a registry.
func TestEndedContextEndsTheWait(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	client := serve(t, registry.Config{URL: "http://SERVER"}, func(w http.ResponseWriter, _ *http.Request) {
		cancel()
		w.WriteHeader(http.StatusInternalServerError)
	})
	if _, err := client.Schema(ctx, wire(7), "t"); err == nil || errors.Is(err, debezium.ErrNoSchema) {
		t.Errorf("got error %v, want one that may pass", err)
	}
}

func TestPasswordIsSentAndNotShown(t *testing.T) {
	t.Parallel()
	for _, c := range []registry.Config{
		{URL: "http://SERVER", Username: "u", Password: "s3cret"},
		{URL: "http://u:s3cret@SERVER"},
	} {
		client := serve(t, c, func(w http.ResponseWriter, r *http.Request) {
			if user, password, ok := r.BasicAuth(); !ok || user != "u" || password != "s3cret" {
				t.Errorf("got user %q, password %q", user, password)
			}
			w.WriteHeader(http.StatusForbidden)
		})
		for _, err := range []error{client.Probe(t.Context()), second(client.Schema(t.Context(), wire(7), "t"))} {
			var permanent interface{ Permanent() bool }
			if !errors.As(err, &permanent) || !permanent.Permanent() || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), "403 Forbidden") {
				t.Errorf("got error %v, want a permanent one without the password", err)
			}
		}
	}
}

// TestOwnAuthority asks a registry whose certificate no authority of the system signed.
func TestOwnAuthority(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(confluent(`{"schema":"\"int\""}`))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it tells of the connections that are refused below
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	pair := server.TLS.Certificates
	for name, c := range map[string]struct {
		tls  *tls.Config
		want string // in a permanent error; empty: an answer
	}{
		"trusted":           {&tls.Config{RootCAs: trusted, Certificates: pair}, ""},
		"another name":      {&tls.Config{RootCAs: trusted, Certificates: pair, ServerName: "example.com"}, ""},
		"not checked":       {&tls.Config{InsecureSkipVerify: true, Certificates: pair}, ""},
		"no name of its":    {&tls.Config{RootCAs: trusted, Certificates: pair, ServerName: "registry.test"}, "server_name"},
		"unknown authority": {&tls.Config{Certificates: pair}, "source.registry.tls: ca"},
		"nothing said":      {nil, "source.registry.tls: ca"},
	} {
		config := registry.Config{URL: server.URL + "/base"}
		if c.tls != nil {
			config.TLS = func() (*tls.Config, error) { return c.tls, nil }
		}
		client, err := registry.New(config)
		if err != nil {
			t.Fatal(err)
		}
		got, err := client.Schema(t.Context(), wire(7), "t")
		var permanent interface{ Permanent() bool }
		switch {
		case c.want == "" && (err != nil || got.Text != `"int"`):
			t.Errorf("%s: got %+v, error %v", name, got, err)
		case c.want != "" && (!errors.As(err, &permanent) || !permanent.Permanent() || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: got error %v, want a permanent one with %q", name, err, c.want)
		}
	}
}

func second(_ debezium.Registered, err error) error { return err }

func TestURLMustBeHTTP(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"", "127.0.0.1:8081", "ftp://u:s3cret@h", "http://", "http://[s3cret"} {
		if _, err := registry.New(registry.Config{URL: u}); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: got error %v", u, err)
		}
	}
}

// TestApicurioNumbersAreToldApart asks a recorded registry, whose serializer wrote global ids in Confluent's wire format,
// as its Confluent-compatible API does not know them.
func TestApicurioNumbersAreToldApart(t *testing.T) {
	t.Parallel()
	schemas, err := debeziumtest.LoadSchemas(filepath.Join("..", "..", "testdata", "debezium", "registry", "schemas.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	global := func(id int64) string { return schemas[debezium.SchemaID{Kind: debezium.GlobalID, ID: id}] }
	content := func(id int64) string { return schemas[debezium.SchemaID{Kind: debezium.ContentID, ID: id}] }
	long := func(id int64) debezium.SchemaID { return debezium.SchemaID{Kind: debezium.LongID, ID: id} }
	type question struct {
		id    debezium.SchemaID
		topic string
		want  string // empty: an error that says to set source.registry.ids
	}
	for name, c := range map[string]struct {
		ids  registry.Numbering
		asks []question
	}{
		"by the topic":                   {registry.AutoIDs, []question{{wire(6), "avro.shop.Order", global(6)}, {wire(54), "avro.shop.customers", global(54)}}},
		"by the topic, content ids":      {registry.AutoIDs, []question{{wire(6), "avroh.shop.customers", content(6)}, {wire(54), "avro.shop.customers", content(54)}}},
		"by an id that only one has":     {registry.AutoIDs, []question{{wire(49), "renamed", global(49)}, {long(54), "renamed", global(54)}}},
		"the same schema decides naught": {registry.AutoIDs, []question{{wire(23), "avro.shop.customers", global(23)}, {wire(54), "avro.shop.customers", ""}}},
		"two versions of one schema":     {registry.AutoIDs, []question{{wire(54), "avro.shop.customers", ""}}},
		"global by configuration":        {registry.GlobalIDs, []question{{wire(54), "avro.shop.customers", global(54)}, {long(54), "", global(54)}}},
		"content by configuration":       {registry.ContentIDs, []question{{wire(54), "avro.shop.customers", content(54)}, {long(54), "", content(54)}}},
		"headers say which":              {registry.AutoIDs, []question{{debezium.SchemaID{Kind: debezium.GlobalID, ID: 54}, "", global(54)}, {debezium.SchemaID{Kind: debezium.ContentID, ID: 54}, "", content(54)}}},
	} {
		for _, path := range []string{"/apis/ccompat/v7", "/apis/registry/v2"} {
			t.Run(fmt.Sprintf("%s%s", name, path), func(t *testing.T) {
				t.Parallel()
				client := serve(t, registry.Config{URL: "http://SERVER" + path, IDs: c.ids}, schemas.ServeHTTP)
				if err := client.Probe(t.Context()); err != nil {
					t.Error(err)
				}
				for _, q := range c.asks {
					got, err := client.Schema(t.Context(), q.id, q.topic)
					switch {
					case q.want == "":
						if !errors.Is(err, debezium.ErrNoSchema) || !strings.Contains(err.Error(), "set source.registry.ids") {
							t.Errorf("%v: got error %v", q.id, err)
						}
					case err != nil || !sameJSON(t, got.Text, q.want):
						t.Errorf("%v: got %.80s, error %v, want %.80s", q.id, got.Text, err, q.want)
					}
				}
			})
		}
	}
}

// TestApicurioIsKnownByEitherOfItsNames: taken for another registry, it would answer with the schema of a content id where a global
// id is meant.
func TestApicurioIsKnownByEitherOfItsNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Apicurio Registry (In Memory)", "apicurio-registry"} {
		answers := map[string]string{
			"/apis/registry/v2/system/info":      `{"name":"` + name + `","version":"2.6.13.Final"}`,
			"/apis/registry/v2/ids/globalIds/7":  `{"namespace":"a.shop.t"}`,
			"/apis/registry/v2/ids/contentIds/7": `{"namespace":"b.shop.t"}`,
			"/apis/ccompat/v7/schemas/ids/7":     `{"schema":"{\"namespace\":\"b.shop.t\"}"}`,
		}
		client := serve(t, registry.Config{URL: "http://SERVER/apis/ccompat/v7"}, func(w http.ResponseWriter, r *http.Request) {
			body, ok := answers[r.URL.Path]
			if !ok {
				w.WriteHeader(http.StatusNotFound)
			}
			if _, err := w.Write([]byte(body)); err != nil {
				t.Error(err)
			}
		})
		if got, err := client.Schema(t.Context(), wire(7), "a.shop.t"); err != nil || got.Text != `{"namespace":"a.shop.t"}` {
			t.Errorf("%s: got %s, error %v, want the schema with the global id", name, got.Text, err)
		}
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y json.RawMessage
	if err := errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)); err != nil {
		t.Fatal(err)
	}
	ca, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	cb, err := json.Marshal(y)
	if err != nil {
		t.Fatal(err)
	}
	return string(ca) == string(cb)
}
