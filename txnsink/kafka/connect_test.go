package kafka

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator/debezium/kafka/broker"
	"replicator/txnsink"
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

func TestEveryWayOfLoggingInPublishes(t *testing.T) {
	t.Parallel()
	pair, trusted := certificate(t)
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t, broker.Options{
				TLS: &tls.Config{Certificates: []tls.Certificate{pair}}, Users: []broker.User{{Mechanism: mechanism, Name: "a b", Password: "s3cret/@:"}},
			})
			url := strings.Replace(urlOf(b), "kafka://", "kafka://a%20b:s3cret%2F%40%3A@", 1) + "?mechanism=" + mechanism
			s := fenced(t, Config{URL: url, Pipeline: "shop", TLS: trusting(trusted)}, 1)
			if err := s.Commit(t.Context(), prepare(t, s, 1, 1)); err != nil {
				t.Error(err)
			}
			for what, c := range map[string]Config{
				"a wrong password":    {URL: strings.Replace(url, "s3cret", "wrong", 1), Pipeline: "shop", TLS: trusting(trusted)},
				"a wrong certificate": {URL: url, Pipeline: "shop", TLS: trusting(nil)},
			} {
				_, err := Open(t.Context(), c)
				if err == nil || c.URL == url && !txnsink.Permanent(err) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "wrong/") {
					t.Errorf("%s: %v", what, err)
				}
			}
		})
	}
}

func TestURLs(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]address{
		"kafka://h/t":                                   {brokers: []string{"h:9092"}, topic: "t"},
		"kafka://h:1,[::1]:2/a.b-c_d":                   {brokers: []string{"h:1", "[::1]:2"}, topic: "a.b-c_d"},
		"kafka://user:p%40ss@h1,h2:3/t?mechanism=PLAIN": {brokers: []string{"h1:9092", "h2:3"}, topic: "t"},
	} {
		got, err := parseURL(url)
		login := got.login
		got.login = nil
		if err != nil || !reflect.DeepEqual(got, want) || (login != nil) != strings.Contains(url, "@") {
			t.Errorf("%s: got %+v, %v", url, got, err)
		}
	}
	for _, url := range []string{
		"mysql://h/t", "kafka://h", "kafka://h/", "kafka:///t", "kafka://h/a b", "kafka://h/..", "kafka://h,/t", "kafka://u:secret@/t", "kafka://u:secret@h/x/t",
		"kafka://h/t?mechanism=PLAIN", "kafka://u:secret@h/t?mechanism=GSSAPI", "kafka://u:secret@h/t?tls=true", "kafka://u:sec%zzret@h/t", "kafka://a:b:c/t",
		"kafka://h/" + strings.Repeat("t", 239), "kafka://h/t?%",
	} {
		if _, err := parseURL(url); err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "ret@") {
			t.Errorf("%s: %v", url, err)
		}
	}
	if _, err := Open(t.Context(), Config{URL: "kafka://127.0.0.1:1/t", Pipeline: "a:b"}); !txnsink.Permanent(err) {
		t.Errorf("a pipeline's name with a colon: %v", err)
	}
}

// TestNothingIsPreparedBeforeItsRowsHaveArrived: the rows' broker is away, that of the control topic is not.
func TestNothingIsPreparedBeforeItsRowsHaveArrived(t *testing.T) {
	t.Parallel()
	b := newBroker(t, broker.Options{Nodes: 2, Version: "v3.8"}) // whose requests have the topics' names
	s := fenced(t, Config{URL: urlOf(b), Pipeline: "shop"}, 1)
	if err := b.MoveLeader("changes.replicator", 0, 0); err != nil {
		t.Fatal(err)
	}
	for p := range s.topics.partitions {
		if err := b.MoveLeader("changes", p, 1); err != nil {
			t.Fatal(err)
		}
	}
	b.Intercept(kmsg.Produce, func(req kmsg.Request) (kmsg.Response, error, bool) {
		for _, topic := range req.(*kmsg.ProduceRequest).Topics {
			if topic.Topic == "changes" {
				return nil, errors.New("the connection breaks"), true
			}
		}
		return nil, nil, false
	})
	open, err := s.Begin(t.Context(), txnsink.ID{Pipeline: "shop", Epoch: 1, Checkpoint: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := open.Apply(t.Context(), rowOf(t, 1, "x")); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if err := open.PreCommit(ctx); err == nil {
		t.Error("prepared although the row did not arrive")
	}
	if list, err := s.Pending(t.Context(), "shop"); err != nil || len(list) != 0 {
		t.Errorf("pending: %v, %v", list, err)
	}
}

func trusting(roots *x509.CertPool) func() (*tls.Config, error) {
	return func() (*tls.Config, error) { return &tls.Config{RootCAs: roots}, nil }
}
