package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/twmb/franz-go/pkg/kmsg"

	mystore "replicator/checkpoint/mysql"
	"replicator/debezium"
	"replicator/debezium/kafka/broker"
	"replicator/debezium/registry"
	"replicator/txnsink/mysql"
	"replicator/txnsink/mysql/mysqlserver"
)

const loopback = "127.0.0.1"

// clientFiles are the certificates of a client, which somebody renews while it runs.
type clientFiles struct{ dir string }

// renew puts a certificate of a's into the files, and trusts the authorities.
func (f clientFiles) renew(t *testing.T, a *authority, trusted ...*authority) {
	t.Helper()
	var bundle []byte
	for _, authority := range trusted {
		bundle = append(bundle, pemText("CERTIFICATE", authority.certificate.Raw)...)
	}
	pair := a.issue(t, loopback)
	for name, text := range map[string][]byte{"ca.pem": bundle, "cert.pem": pair.Certificate, "key.pem": pair.Key} {
		if err := os.WriteFile(f.path(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func (f clientFiles) path(name string) string { return filepath.Join(f.dir, name) }

func (f clientFiles) section() *tlsConfig {
	return &tlsConfig{On: true, CA: f.path("ca.pem"), Cert: f.path("cert.pem"), Key: f.path("key.pem")}
}

// load is section, loaded.
func (f clientFiles) load(t *testing.T) func() (*tls.Config, error) {
	t.Helper()
	out, err := f.section().load()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// changing is a TLS server that may be given other certificates while it listens. It lets clients in that have one of the same
// authority.
type changing struct {
	now  atomic.Pointer[tls.Config]
	base *tls.Config
}

func newChanging(t *testing.T, a *authority) *changing {
	t.Helper()
	c := &changing{}
	c.change(t, a)
	c.base = c.now.Load().Clone()
	c.base.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return c.now.Load(), nil }
	return c
}

func (c *changing) change(t *testing.T, a *authority) {
	t.Helper()
	pair := a.issue(t, loopback)
	own, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.certificate)
	c.now.Store(&tls.Config{Certificates: []tls.Certificate{own}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert})
}

// TestARunGoesOnWithRenewedCertificates: while it runs, Kafka and PostgreSQL get certificates of another authority and
// let nobody in with one of the former. The run's files are renewed first, and its connections break.
func TestARunGoesOnWithRenewedCertificates(t *testing.T) {
	t.Parallel()
	former, next := newAuthority(t), newAuthority(t)
	files := clientFiles{t.TempDir()}
	files.renew(t, former, former)

	kafka := newChanging(t, former)
	b, err := broker.Start(broker.Options{TLS: kafka.base})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	r := newCaseRunOn(t, newTLSServer(t, former.issue(t, loopback)), loadCase(t, "67"))
	r.askForCertificates(t, former)
	records := r.brokerRecords(r.records(t))
	if err := b.CreateTopic(records[0].Partition.Topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	produce := func(records ...debezium.Record) {
		if err := b.Produce(t.Context(), records...); err != nil {
			t.Fatal(err)
		}
	}
	secured, err := url.Parse(r.url)
	if err != nil {
		t.Fatal(err)
	}
	secured.RawQuery = url.Values{
		"sslmode": {"verify-full"}, "sslrootcert": {files.path("ca.pem")}, "sslcert": {files.path("cert.pem")}, "sslkey": {files.path("key.pem")},
	}.Encode()
	r.target = secured.String()
	want := r.result(t, "")
	rows := func(n int) func() bool {
		return func() bool { return len(r.exec(t, want.Query)) == n }
	}

	produce(records[:2]...)
	d := startDaemon(t, "run", "--config", r.file(t), "--set", "source.brokers=["+strings.Join(b.Addrs(), ",")+"]",
		"--set", fmt.Sprintf("source.tls={ca: %s, cert: %s, key: %s}", files.path("ca.pem"), files.path("cert.pem"), files.path("key.pem")))
	eventually(t, "two rows", rows(2))

	files.renew(t, next, former, next)
	r.renewServer(t, next)
	again := atomic.Int64{}
	kafka.change(t, next)
	kafka.now.Load().VerifyConnection = func(tls.ConnectionState) error {
		again.Add(1)
		return nil
	}
	broken := atomic.Bool{}
	b.Intercept(kmsg.Fetch, func(kmsg.Request) (kmsg.Response, error, bool) {
		return nil, errors.New("this connection ends"), broken.CompareAndSwap(false, true)
	})
	r.exec(t, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	eventually(t, "a connection to the brokers with renewed certificates", func() bool { return again.Load() > 0 })
	produce(records[2:]...)
	eventually(t, "all rows", rows(len(want.Rows)))
	d.stop(t)
	r.expect(t, want)
}

// askForCertificates has the server let in, over TLS, who shows a certificate of a's.
func (r *caseRun) askForCertificates(t *testing.T, a *authority) {
	t.Helper()
	r.writeServerFile(t, "clients.crt", pemText("CERTIFICATE", a.certificate.Raw))
	r.writeServerFile(t, "pg_hba.conf", []byte("hostnossl all all 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 trust clientcert=verify-ca\n"))
	r.exec(t, "ALTER SYSTEM SET ssl_ca_file = 'clients.crt'")
	r.exec(t, "SELECT pg_reload_conf()")
	eventually(t, "a server that asks for certificates", func() bool { return !r.letsIn(t, a, nil) })
}

// renewServer gives the server a certificate of a's, and has it ask for such ones.
func (r *caseRun) renewServer(t *testing.T, a *authority) {
	t.Helper()
	pair := a.issue(t, loopback)
	r.writeServerFile(t, "clients.crt", pemText("CERTIFICATE", a.certificate.Raw))
	r.writeServerFile(t, "../server.crt", pair.Certificate)
	r.writeServerFile(t, "../server.key", pair.Key)
	r.exec(t, "SELECT pg_reload_conf()")
	eventually(t, "a server with renewed certificates", func() bool { return r.letsIn(t, a, a) })
}

// writeServerFile writes a file as the server's user, below its data directory.
func (r *caseRun) writeServerFile(t *testing.T, name string, content []byte) {
	t.Helper()
	r.exec(t, fmt.Sprintf("SELECT lo_from_bytea(67, '\\x%x'); SELECT lo_export(67, '%s'); SELECT lo_unlink(67)", content, name))
}

// letsIn says whether the server shows a certificate of server's and lets in who shows one of client's.
func (r *caseRun) letsIn(t *testing.T, server, client *authority) bool {
	t.Helper()
	c, err := pgconn.ParseConfig(r.url)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(server.certificate)
	c.TLSConfig = &tls.Config{RootCAs: trusted, ServerName: loopback}
	if client != nil {
		issued := client.issue(t, loopback)
		pair, err := tls.X509KeyPair(issued.Certificate, issued.Key)
		if err != nil {
			t.Fatal(err)
		}
		c.TLSConfig.Certificates = []tls.Certificate{pair}
	}
	conn, err := pgconn.ConnectConfig(t.Context(), c)
	if err != nil {
		return false
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return true
}

// TestMySQLSessionsTakeRenewedCertificates: a checkpoint store, whose sessions are the sink's too, goes on when both sides have
// certificates of another authority and its sessions were ended.
func TestMySQLSessionsTakeRenewedCertificates(t *testing.T) {
	t.Parallel()
	for kind, reload := range map[mysqlserver.Kind]string{mysqlserver.MySQL9: "ALTER INSTANCE RELOAD TLS", mysqlserver.MariaDB: "FLUSH SSL"} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			former, next := newAuthority(t), newAuthority(t)
			own, files := clientFiles{t.TempDir()}, clientFiles{t.TempDir()}
			own.renew(t, former, former)
			files.renew(t, former, former)
			server, err := mysqlserver.Start(t.Context(), mysqlserver.Config{Kind: kind, Settings: map[string]string{
				"ssl-ca": own.path("ca.pem"), "ssl-cert": own.path("cert.pem"), "ssl-key": own.path("key.pem"),
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := server.Stop(); err != nil {
					t.Error(err)
				}
			})
			r := newMySQLRun(t, server, "67", "renewed")
			r.execMySQL(t, "CREATE USER reader@127.0.0.1 REQUIRE X509")
			r.execMySQL(t, "GRANT ALL ON *.* TO reader@127.0.0.1")
			address := strings.Replace(r.url, "root@", "reader@", 1)
			if err := mysql.Up(t.Context(), r.url, nil); err != nil {
				t.Fatal(err)
			}
			store, err := mystore.Open(t.Context(), address, files.load(t))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := store.Close(); err != nil {
					t.Error(err)
				}
			})
			if _, err := store.Acquire(t.Context(), "shop"); err != nil {
				t.Fatal(err)
			}

			own.renew(t, next, next)
			r.execMySQL(t, reload)
			for _, row := range r.execMySQL(t, "SELECT id FROM information_schema.processlist WHERE user = 'reader'") {
				r.execMySQL(t, "KILL "+*row[0])
			}
			if _, err := mystore.Open(t.Context(), address, files.load(t)); err == nil {
				t.Fatal("the server still takes the former certificates")
			}
			files.renew(t, next, next)
			c, err := store.Acquire(t.Context(), "shop")
			if err != nil || c.Epoch != 2 {
				t.Errorf("epoch %d, %v", c.Epoch, err)
			}
		})
	}
}

// TestTheRegistryIsAskedWithRenewedCertificates, and with the same connection as long as they are the same.
func TestTheRegistryIsAskedWithRenewedCertificates(t *testing.T) {
	t.Parallel()
	former, next := newAuthority(t), newAuthority(t)
	files := clientFiles{t.TempDir()}
	files.renew(t, former, former)
	certificates := newChanging(t, former)
	server := httptest.NewUnstartedServer(caseRegistry(t, loadCase(t, "69")))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // it tells of the connections that are refused below
	server.TLS = certificates.base
	server.StartTLS()
	t.Cleanup(server.Close)
	handshakes := atomic.Int64{}
	count := func(tls.ConnectionState) error {
		handshakes.Add(1)
		return nil
	}
	certificates.now.Load().VerifyConnection = count
	client, err := registry.New(registry.Config{URL: server.URL, Username: "reader", Password: "s3cret", TLS: files.load(t)})
	if err != nil {
		t.Fatal(err)
	}
	ask := func() error {
		_, err := client.Schema(t.Context(), debezium.SchemaID{Kind: debezium.WireID, ID: 1}, "t")
		if errors.Is(err, debezium.ErrNoSchema) {
			return nil // it was asked
		}
		return err
	}
	for range 2 {
		if err := ask(); err != nil {
			t.Fatal(err)
		}
	}
	if n := handshakes.Load(); n != 1 {
		t.Errorf("%d connections for two questions", n)
	}
	certificates.change(t, next)
	server.CloseClientConnections()
	if err := ask(); err == nil {
		t.Error("the server still takes the former certificates")
	}
	files.renew(t, next, next)
	if err := ask(); err != nil {
		t.Error(err)
	}
}

// TestHalfRenewedCertificatesFailOneConnection: between the writes of two files a connection fails, and the next finds both.
func TestHalfRenewedCertificatesFailOneConnection(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	files := clientFiles{t.TempDir()}
	files.renew(t, a, a)
	load := files.load(t)
	first, err := load()
	if err != nil {
		t.Fatal(err)
	}
	if same, err := load(); err != nil || same != first {
		t.Errorf("of the same files another configuration, %v", err)
	}
	former, err := os.ReadFile(files.path("key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	files.renew(t, a, a)
	renewed, err := os.ReadFile(files.path("key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		key  []byte
		fail bool
	}{{former, true}, {renewed, false}} {
		if err := os.WriteFile(files.path("key.pem"), step.key, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := load()
		if step.fail != (err != nil) || !step.fail && got == first {
			t.Errorf("got %p, first %p, %v", got, first, err)
		}
	}
	if err := os.Remove(files.path("ca.pem")); err != nil {
		t.Fatal(err)
	}
	if _, err := load(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the authority's file: %v", err)
	}
}
