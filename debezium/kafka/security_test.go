package kafka

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	kafkago "github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator/debezium"
	"replicator/debezium/kafka/broker"
)

// certificate is one for 127.0.0.1, which signs itself, and what trusts it.
func certificate(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	trusted := x509.NewCertPool()
	trusted.AddCert(server.Certificate())
	return server.TLS.Certificates[0], trusted
}

// as always gives c.
func as(c *tls.Config) func() (*tls.Config, error) {
	return func() (*tls.Config, error) { return c, nil }
}

// read fails unless the records of a topic arrive.
func read(t *testing.T, b *broker.Broker, change func(*Config)) {
	t.Helper()
	check(t, b.CreateTopic("t", 1, nil))
	records := numbered(debezium.Partition{Topic: "t"}, 0, 10)
	check(t, b.Produce(testContext(t), records...))
	r := open(t, newSource(t, b, change), nil)
	next := int64(0)
	for next < int64(len(records)) {
		batch, err := r.Next(testContext(t))
		check(t, err)
		next = batch.Next
	}
}

func TestEveryWayOfLoggingInReads(t *testing.T) {
	t.Parallel()
	pair, trusted := certificate(t)
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		for name, secured := range map[string]*tls.Config{"plain": nil, "TLS": {Certificates: []tls.Certificate{pair}}} {
			t.Run(mechanism+" "+name, func(t *testing.T) {
				t.Parallel()
				b := startBroker(t, broker.Options{TLS: secured, Users: []broker.User{{Mechanism: mechanism, Name: "reader", Password: "s3cret"}}})
				with := func(c *Config) {
					c.SASL = SASL{Mechanism: mechanism, Username: "reader", Password: "s3cret"}
					if secured != nil {
						c.TLS = as(&tls.Config{RootCAs: trusted})
					}
				}
				check(t, newSource(t, b, with).Probe(testContext(t)))
				read(t, b, with)
			})
		}
	}
}

func TestTheBrokerSeesTheClientsCertificate(t *testing.T) {
	t.Parallel()
	pair, trusted := certificate(t)
	b := startBroker(t, broker.Options{TLS: &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAnyClientCert}})
	read(t, b, func(c *Config) { c.TLS = as(&tls.Config{RootCAs: trusted, Certificates: []tls.Certificate{pair}}) })
	s := newSource(t, b, func(c *Config) { c.TLS, c.GiveUp = as(&tls.Config{RootCAs: trusted}), time.Millisecond })
	if _, err := s.Open(testContext(t), nil); err == nil || !strings.Contains(err.Error(), "certificate required") {
		t.Errorf("without a certificate: got error %v", err)
	}
}

// TestUnwelcomeConnectionsSayWhy: what comes again however often it is tried stops at once.
func TestUnwelcomeConnectionsSayWhy(t *testing.T) {
	t.Parallel()
	pair, trusted := certificate(t)
	encrypted := startBroker(t, broker.Options{TLS: &tls.Config{Certificates: []tls.Certificate{pair}}})
	users := []broker.User{{Mechanism: "PLAIN", Name: "reader", Password: "s3cret"}}
	login, refusing, scramless := startBroker(t, broker.Options{Users: users}), startBroker(t, broker.Options{Users: users}), startBroker(t, broker.Options{Users: users})
	refusePasswords(refusing)
	refuseMechanisms(scramless)
	for name, c := range map[string]struct {
		b      *broker.Broker
		change func(*Config)
		class  string // empty: it may pass
		words  string
	}{
		"unknown authority": {encrypted, func(c *Config) { c.TLS = as(&tls.Config{}) }, NotTrusted, "set source.tls.ca"},
		"another name":      {encrypted, func(c *Config) { c.TLS = as(&tls.Config{RootCAs: trusted, ServerName: "kafka.test"}) }, NotTrusted, "source.tls.server_name"},
		"TLS here":          {encrypted, func(*Config) {}, "", "see whether this port expects TLS"},
		"wrong password":    {refusing, func(c *Config) { c.SASL = SASL{Mechanism: "PLAIN", Username: "reader", Password: "guess"} }, NotAuthenticated, "refuses the user or the password"},
		"other mechanism":   {scramless, func(c *Config) { c.SASL = SASL{Mechanism: "SCRAM-SHA-256", Username: "reader", Password: "guess"} }, NotAuthenticated, "source.sasl.mechanism"},
		"no log-in":         {login, func(*Config) {}, "", "see whether this port expects TLS, SASL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSource(t, c.b, func(cfg *Config) {
				cfg.GiveUp = time.Millisecond
				c.change(cfg)
			})
			_, err := s.Open(testContext(t), nil)
			var e *Error
			switch {
			case err == nil:
				t.Error("there is no error")
			case c.class != "":
				if e = classed(t, err, c.class); !strings.Contains(e.Detail, c.words) {
					t.Errorf("got %v, want %q in it", err, c.words)
				}
			case errors.As(err, &e):
				t.Errorf("got the permanent error %v, and it may pass", err)
			}
			if err := s.Probe(testContext(t)); err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "guess") {
				t.Errorf("probe: got %v, want %q in it", err, c.words)
			}
		})
	}
}

// refusePasswords and refuseMechanisms have a broker answer as Kafka does, where kfake closes the connection.
func refusePasswords(b *broker.Broker) {
	b.Intercept(kmsg.SASLAuthenticate, func(req kmsg.Request) (kmsg.Response, error, bool) {
		answer, ok := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		if ok {
			answer.ErrorCode = int16(kafkago.SASLAuthenticationFailed)
			answer.ErrorMessage = kmsg.StringPtr("Authentication failed: Invalid username or password")
		}
		return answer, nil, ok
	})
}

func refuseMechanisms(b *broker.Broker) {
	b.Intercept(kmsg.SASLHandshake, func(req kmsg.Request) (kmsg.Response, error, bool) {
		answer, ok := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
		if ok {
			answer.ErrorCode, answer.SupportedMechanisms = int16(kafkago.UnsupportedSASLMechanism), []string{"PLAIN"}
		}
		return answer, nil, ok
	})
}

// TestABrokerThatEndsWhileItLogsInMayComeBack: a connection that breaks then is no refusal.
func TestABrokerThatEndsWhileItLogsInMayComeBack(t *testing.T) {
	t.Parallel()
	b := startBroker(t, broker.Options{Users: []broker.User{{Mechanism: "PLAIN", Name: "reader", Password: "s3cret"}}})
	check(t, b.CreateTopic("t", 1, nil))
	failures := 3
	b.Intercept(kmsg.SASLAuthenticate, func(kmsg.Request) (kmsg.Response, error, bool) {
		failures--
		return nil, errors.New("the broker ends"), failures >= 0
	})
	open(t, newSource(t, b, func(c *Config) { c.SASL = SASL{Mechanism: "PLAIN", Username: "reader", Password: "s3cret"} }), nil)
}
