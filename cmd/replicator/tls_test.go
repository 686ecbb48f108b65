package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"replicator/debezium/kafka/broker"
)

// TestRunOverTLS runs the Avro case with brokers and a registry that both want TLS, a certificate and a user, and that no
// authority of the system vouches for.
func TestRunOverTLS(t *testing.T) {
	t.Parallel()
	r := newAvroRun(t)
	server := httptest.NewUnstartedServer(caseRegistry(t, r.caseFile))
	server.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	user := broker.User{Mechanism: "SCRAM-SHA-512", Name: "reader", Password: "s3cret"}
	b, err := broker.Start(broker.Options{Users: []broker.User{user}, TLS: &tls.Config{
		Certificates: server.TLS.Certificates, ClientAuth: tls.RequireAnyClientCert,
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	records := r.brokerRecords(r.records(t))
	if err := b.CreateTopic(records[0].Partition.Topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	if err := b.Produce(t.Context(), records...); err != nil {
		t.Fatal(err)
	}

	dir := t.TempDir()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	section := fmt.Sprintf("{ca: %[1]s, cert: %[1]s, key: %[2]s}",
		writePEM(t, dir, "cert.pem", "CERTIFICATE", pair.Certificate[0]), writePEM(t, dir, "key.pem", "PRIVATE KEY", key))
	r.config["source.brokers"] = "[" + strings.Join(b.Addrs(), ", ") + "]"
	r.config["source.tls"] = section
	r.config["source.sasl.mechanism"] = user.Mechanism
	r.config["source.sasl.username"] = user.Name
	r.config["source.sasl.password"] = user.Password
	r.config["source.registry.url"] = server.URL
	r.config["source.registry.tls"] = section
	if code, stderr := r.run(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	r.expect(t, r.result(t, ""))

	r.config["source.tls"] = "{insecure_skip_verify: true, cert: x.pem, key: x.pem}"
	code, stderr := r.run(t)
	r.stopped(t, code, stderr, "source.tls", "x.pem", "no such file")
	r.config["source.tls"] = "{ca: " + filepath.Join(dir, "key.pem") + "}"
	code, stderr = r.run(t)
	r.stopped(t, code, stderr, "source.tls", "has no certificate in PEM format")
	r.config["source.tls"] = "{}"
	code, stderr = r.run(t)
	r.stopped(t, code, stderr, "not_trusted", "set source.tls.ca")
}

// writePEM writes a file of one block and returns its path.
func writePEM(t *testing.T, dir, name, kind string, content []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := pem.Encode(&b, &pem.Block{Type: kind, Bytes: content}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
