package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"replicator/txnsink/postgres/pgserver"
)

// authority is a certificate authority of a test.
type authority struct {
	file        string // its certificate
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority of " + t.Name()}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pemText("CERTIFICATE", der), 0o600); err != nil {
		t.Fatal(err)
	}
	return &authority{file, c, key}
}

func pemText(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// issue makes a certificate for a host.
func (a *authority) issue(t *testing.T, host string) *pgserver.KeyPair {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "server"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		c.IPAddresses = []net.IP{ip}
	} else {
		c.DNSNames = []string{host}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, a.certificate, &key.PublicKey, a.key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return &pgserver.KeyPair{Certificate: pemText("CERTIFICATE", der), Key: pemText("PRIVATE KEY", text)}
}

// newTLSServer starts a PostgreSQL with a certificate for a host.
func newTLSServer(t *testing.T, pair *pgserver.KeyPair) *pgserver.Server {
	t.Helper()
	server, err := pgserver.Start(t.Context(), pgserver.Config{TLS: pair})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	return server
}

// withTLS is a server's URL with other parameters.
func withTLS(t *testing.T, text, mode, ca string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	q := url.Values{}
	if mode != "" {
		q.Set("sslmode", mode)
	}
	if ca != "" {
		q.Set("sslrootcert", ca)
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// TestCaseTLSIsNeverWeakened runs case 68 with PostgreSQL: whatever TLS was asked for and cannot be had ends the run before it
// writes anything, with the setting to change.
func TestCaseTLSIsNeverWeakened(t *testing.T) {
	t.Parallel()
	own, other := newAuthority(t), newAuthority(t)
	right, misnamed := newTLSServer(t, own.issue(t, "127.0.0.1")), newTLSServer(t, own.issue(t, "db.example"))
	for name, c := range map[string]struct {
		server   *pgserver.Server
		mode, ca string
		code     int
		words    []string // none: it runs
	}{
		"unknown mode":                  {right, "preferrred", "", exitUsage, []string{"target.url", "tls_configuration", "sslmode", "verify-full"}},
		"prefer":                        {right, "prefer", "", exitUsage, []string{"target.url", "tls_configuration", "sslmode=prefer", "plain text"}},
		"allow":                         {right, "allow", "", exitUsage, []string{"target.url", "tls_configuration", "sslmode=allow", "plain text"}},
		"required, and there is none":   {world.server, "require", "", exitFailed, []string{"tls_configuration", "refused TLS", "sslmode"}},
		"verified by another authority": {right, "verify-full", other.file, exitFailed, []string{"tls_configuration", "unknown authority", "sslrootcert"}},
		"authority alone, another":      {right, "verify-ca", other.file, exitFailed, []string{"tls_configuration", "unknown authority", "sslrootcert"}},
		"verified by no authority":      {right, "verify-full", "", exitFailed, []string{"tls_configuration", "unknown authority", "sslrootcert"}},
		"another host":                  {misnamed, "verify-full", own.file, exitFailed, []string{"tls_configuration", "127.0.0.1", "host"}},
		"verified":                      {right, "verify-full", own.file, exitDone, nil},
		"another host, not looked at":   {misnamed, "verify-ca", own.file, exitDone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRunOn(t, c.server, loadCase(t, "68"))
			r.produce(t, r.records(t)...)
			r.target = withTLS(t, r.url, c.mode, c.ca)
			code, stderr := r.run(t)
			if code != c.code {
				t.Fatalf("exit code %d, want %d:\n%s", code, c.code, stderr)
			}
			for _, w := range c.words {
				if !strings.Contains(lastLine(stderr), w) {
					t.Errorf("the error does not say %q: %s", w, stderr)
				}
			}
			if c.words != nil {
				r.expect(t, r.result(t, ""))
				return
			}
			if !strings.Contains(stderr, "encrypted=true") {
				t.Errorf("the log does not say that the connection is encrypted:\n%s", stderr)
			}
			r.expect(t, caseResult{Query: "SELECT id, amt FROM pay", Rows: r.exec(t, "SELECT '1', '10'")})
		})
	}
}

// TestStoreOverTLS keeps the checkpoints in another server than the target, and trusts it no further.
func TestStoreOverTLS(t *testing.T) {
	t.Parallel()
	own, other := newAuthority(t), newAuthority(t)
	server := newTLSServer(t, own.issue(t, "127.0.0.1"))
	r := newCaseRun(t, loadCase(t, "68"))
	r.produce(t, r.records(t)...)
	r.config["checkpoint.store"] = withTLS(t, server.URL("postgres"), "prefer", "")
	if code, stderr := r.run(t); code != exitUsage || !strings.Contains(stderr, "checkpoint.store: tls_configuration") {
		t.Errorf("sslmode=prefer: exit code %d:\n%s", code, stderr)
	}
	r.config["checkpoint.store"] = withTLS(t, server.URL("postgres"), "verify-full", other.file)
	code, stderr := r.run(t)
	r.stopped(t, code, stderr, "checkpoint.store", "tls_configuration", "sslrootcert")
	r.expect(t, r.result(t, ""))
	r.config["checkpoint.store"] = withTLS(t, server.URL("postgres"), "verify-full", own.file)
	if code, stderr := r.run(t); code != exitDone {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	r.expect(t, caseResult{Query: "SELECT count(*) FROM pay", Rows: r.exec(t, "SELECT '1'")})
}

// TestUnsaidTLSIsWarnedOf by check and at start: without an sslmode the server decides.
func TestUnsaidTLSIsWarnedOf(t *testing.T) {
	t.Parallel()
	right := newTLSServer(t, newAuthority(t).issue(t, "127.0.0.1"))
	for server, want := range map[*pgserver.Server]string{world.server: "encrypted=false", right: "encrypted=true"} {
		found := map[string]string{"encrypted=false": "tls/off", "encrypted=true": "tls/optional"}[want]
		r := newCaseRunOn(t, server, loadCase(t, "68"))
		r.produce(t, r.records(t)...)
		r.target = withTLS(t, r.url, "", "")
		if code, stderr := r.run(t); code != exitDone || !strings.Contains(stderr, "level=WARN") || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d:\n%s", want, code, stderr)
		}
		if got := checkFinds(t, "check", "--json", "--config", r.file(t)); !slices.Contains(got, found) {
			t.Errorf("check finds %v, want %s among them", got, found)
		}
	}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
