package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"replicator/debezium/kafka/broker"
	"replicator/txnsink/postgres/pgserver"
)

// mark begins every secret of these tests, and nothing else does. Its end is hard for URLs.
const mark = "MARKED"

func secretOf(what string) string { return mark + what + `@:/#?&p%41"'` }

// vault is a world in which everything asks for a secret.
type vault struct {
	server   *pgserver.Server
	address  string // of the server
	database string
	broker   *broker.Broker
	registry *httptest.Server
	tokens   *httptest.Server // an endpoint that gives no token
	key      string           // a file that is no key, and must not be shown
}

func newVault(t *testing.T) *vault {
	t.Helper()
	v := &vault{database: "vault"}
	var err error
	if v.server, err = pgserver.Start(t.Context(), pgserver.Config{Settings: map[string]string{"password_encryption": "scram-sha-256"}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := v.server.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := v.server.CreateDatabase(t.Context(), v.database); err != nil {
		t.Fatal(err)
	}
	c := loadCase(t, "68")
	r := &caseRun{caseFile: c, url: v.server.URL(v.database)}
	r.exec(t, c.setup(t, v.database))
	for _, role := range []string{"target", "store", "source"} {
		r.exec(t, fmt.Sprintf("CREATE ROLE %s SUPERUSER LOGIN PASSWORD '%s'", role, strings.ReplaceAll(secretOf(role), "'", "''")))
	}
	// The superuser of pgserver goes on without a password; the others need theirs.
	file := *r.exec(t, "SHOW hba_file")[0][0]
	r.exec(t, `COPY (VALUES ('host all postgres 127.0.0.1/32 trust'), ('host all all 127.0.0.1/32 scram-sha-256')) TO '`+file+`'`)
	r.exec(t, "SELECT pg_reload_conf()")
	u, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	v.address = u.Host
	if v.broker, err = broker.Start(broker.Options{Users: []broker.User{{Mechanism: "SCRAM-SHA-256", Name: "reader", Password: secretOf("sasl")}}}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(v.broker.Close)
	records := r.brokerRecords(c.records(t))
	if err := v.broker.CreateTopic(records[0].Partition.Topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := v.broker.Produce(t.Context(), records...); err != nil {
		t.Fatal(err)
	}
	v.registry = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		http.Error(w, "no such user "+user+" with "+password, http.StatusUnauthorized) // a registry that tells too much
	}))
	t.Cleanup(v.registry.Close)
	v.tokens = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, secret, _ := r.BasicAuth()
		if secret, err := url.QueryUnescape(secret); err == nil { // it tells too much as well
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error": %q, "error_description": %[1]q}`, secret)
		}
	}))
	t.Cleanup(v.tokens.Close)
	v.key = filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(v.key, []byte("-----BEGIN PRIVATE KEY-----\n"+mark+"key\n-----END PRIVATE KEY-----\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return v
}

// config is a configuration in which everything works.
func (v *vault) config(t *testing.T) string {
	t.Helper()
	t.Setenv("VAULT_TARGET", secretOf("target"))
	t.Setenv("VAULT_SASL", secretOf("sasl"))
	t.Setenv("VAULT_TOKEN", secretOf("token"))
	t.Setenv("VAULT_REGISTRY", secretOf("registry"))
	return writeConfig(t, fmt.Sprintf(`pipeline: vault
source:
  brokers: [%[1]s]
  topics: ['.*pay']
  sasl: {mechanism: SCRAM-SHA-256, username: reader, password: "${VAULT_SASL}"}
  registry: {url: 'http://reader:${VAULT_REGISTRY}@%[2]s/', password: "${VAULT_REGISTRY}"}
target: {url: 'postgres://target:${VAULT_TARGET}@%[3]s/%[4]s?sslmode=disable'}
checkpoint: {store: 'postgres://store:%[5]s@%[3]s/postgres?sslmode=disable'}
verify: {source: 'postgres://source:%[6]s@%[3]s/%[4]s?sslmode=disable'}
http: {listen: '127.0.0.1:0', token: "${VAULT_TOKEN}"}
log: {level: debug, format: json}
`, v.broker.Addrs()[0], v.registry.Listener.Addr(), v.address, v.database, url.QueryEscape(secretOf("store")), url.QueryEscape(secretOf("source"))))
}

// oauth is a source.sasl that logs in with tokens of a URL's.
func (v *vault) oauth(tokenURL string) string {
	return "{mechanism: OAUTHBEARER, token_url: '" + tokenURL + "', client_id: reader, client_secret: " + mark + "oauth}"
}

// commandLines returns every command that reads a configuration, with --json where it has that, and with an argument and without.
func commandLines(a *app) [][]string {
	var lines [][]string
	var walk func(c *cobra.Command, path []string)
	walk = func(c *cobra.Command, path []string) {
		if c.Flags().Lookup("config") != nil {
			lines = append(lines, path, append(slices.Clone(path), "1"))
			if c.Flags().Lookup("json") != nil {
				lines = append(lines, append(slices.Clone(path), "--json"), append(slices.Clone(path), "1", "--json"))
			}
			if c.Flags().Lookup("until-caught-up") != nil {
				lines = append(lines, append(slices.Clone(path), "--until-caught-up"))
			}
		}
		for _, sub := range c.Commands() {
			walk(sub, append(slices.Clone(path), sub.Name()))
		}
	}
	walk(a.root(), nil)
	return lines
}

// TestSecretsAreNeverShown runs every command where all is well, and where each part in turn refuses, is not there or cannot be
// read, and looks for the secrets in what it prints.
func TestSecretsAreNeverShown(t *testing.T) {
	v := newVault(t)
	file := v.config(t)
	slots := make(chan struct{}, 16) // commands at once
	var wait sync.WaitGroup
	wrong := url.QueryEscape(mark + "wrong%:@/")
	for name, set := range map[string][]string{
		"all is well":              nil,
		"wrong password of target": {"target.url=postgres://target:" + wrong + "@" + v.address + "/vault?sslmode=disable"},
		"password as a parameter":  {"target.url=postgres://target@" + v.address + "/vault?sslmode=disable&password=" + wrong},
		"no such target":           {"target.url=postgres://target:" + wrong + "@127.0.0.1:1/vault?sslmode=disable"},
		"target with a bad value":  {"target.url=postgres://target:" + wrong + "@" + v.address + "/vault?sslmode=disable&connect_timeout=soon"},
		"target with a bad key":    {"target.url=postgres://target:" + wrong + "@" + v.address + "/vault?sslmode=require&sslcert=" + v.key + "&sslkey=" + v.key + "&sslpassword=" + wrong},
		"target that is no URL":    {"target.url=postgres://target:" + mark + "%zz@" + v.address + "/vault"},
		"wrong mode":               {"target.url=postgres://target:" + wrong + "@" + v.address + "/vault?sslmode=" + mark},
		"no such MySQL":            {"target.url=mysql://target:" + wrong + "@127.0.0.1:1/vault"},
		"wrong password of store":  {"checkpoint.store=postgres://store:" + wrong + "@" + v.address + "/postgres?sslmode=disable"},
		"no such store":            {"checkpoint.store=mysql://store:" + wrong + "@127.0.0.1:1/vault"},
		"wrong password of source": {"verify.source=postgres://source:" + wrong + "@" + v.address + "/vault?sslmode=disable"},
		"no such source":           {"verify.source=mysql://source:" + wrong + "@127.0.0.1:1/vault"},
		"wrong parameter":          {"verify.source=mysql://source:" + wrong + "@127.0.0.1:1/?tls=" + mark},
		"wrong password of Kafka":  {"source.sasl.password=" + mark + "wrong"},
		"no token":                 {"source.sasl=" + v.oauth(v.tokens.URL)},
		"no token endpoint":        {"source.sasl=" + v.oauth("http://127.0.0.1:1/?key="+mark)},
		"token URL with a user":    {"source.sasl=" + v.oauth("http://reader:"+wrong+"@127.0.0.1:1/")},
		"registry with a bad key":  {"source.format=avro", "source.registry.url=https://" + v.address, "source.registry.tls={cert: " + v.key + ", key: " + v.key + "}"},
		"registry refuses":         {"source.format=avro"},
		"registry is not there":    {"source.format=avro", "source.registry.url=http://reader:" + wrong + "@127.0.0.1:1"},
		"registry is no URL":       {"source.registry.url=ftp://reader:" + wrong + "@127.0.0.1:1"},
		"Kafka with a bad key":     {"source.tls={cert: " + v.key + ", key: " + v.key + "}"},
		"an unknown key":           {"target.password=" + mark},
	} {
		for _, line := range commandLines(&app{}) {
			args := append(slices.Clone(line), "--config", file)
			for _, s := range set {
				args = append(args, "--set", s)
			}
			slots <- struct{}{}
			wait.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				var out bytes.Buffer
				Main(ctx, args, strings.NewReader(""), &out, &out)
				if shown := out.String(); strings.Contains(shown, mark) {
					t.Errorf("%s: %v shows a secret:\n%s", name, line, shown)
				}
				<-slots
			})
		}
	}
	wait.Wait()
}

// TestSecretsAreNeverServed asks the port of a running pipeline for all that it has.
func TestSecretsAreNeverServed(t *testing.T) {
	v := newVault(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	d := startDaemon(t, "run", "--config", v.config(t), "--set", "http.listen="+address)
	base := "http://" + address
	token := secretOf("token")
	ready := func() bool {
		response, err := http.Get(base + "/readyz")
		if err != nil {
			return false
		}
		return response.Body.Close() == nil && response.StatusCode == http.StatusOK
	}
	eventually(t, "a pipeline that runs", ready)
	for _, request := range []string{
		"GET /", "GET /metrics", "GET /healthz", "GET /readyz", "GET /api/status", "GET /api/history", "GET /api/config", "GET /nothing",
		"POST /api/savepoint", "POST /api/pause", "POST /api/resume",
	} {
		for _, authorization := range []string{"", "Bearer " + token, "Bearer " + mark} {
			method, path, _ := strings.Cut(request, " ")
			r, err := http.NewRequestWithContext(t.Context(), method, base+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			if authorization != "" {
				r.Header.Set("Authorization", authorization)
			}
			response, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
			if err != nil {
				t.Error(err)
			}
			if err := response.Body.Close(); err != nil {
				t.Error(err)
			}
			if strings.Contains(string(body)+fmt.Sprint(response.Header), mark) {
				t.Errorf("%s serves a secret:\n%s", request, body)
			}
		}
	}
	d.stop(t)
	if strings.Contains(d.errs.String(), mark) {
		t.Errorf("the log shows a secret:\n%s", d.errs.String())
	}
}
