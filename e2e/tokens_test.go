//go:build e2e

package e2e

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"replicator/debezium"
	"replicator/debezium/kafka"
)

// TestKafkaTakesTokens reads from a broker that asks for tokens, and ends each connection 3 s after its log-in, as brokers do whose
// clients do not log in again. What is unsecured about the tokens is that nobody signed them.
func TestKafkaTakesTokens(t *testing.T) {
	broker, asks := os.Getenv("LAB_KAFKA"), os.Getenv("LAB_KAFKA_TOKENS")
	if broker == "" || asks == "" {
		t.Fatal("LAB_KAFKA or LAB_KAFKA_TOKENS is not set: run this test by `make e2e` or e2e/run, which start the servers that it needs")
	}
	var life atomic.Int64
	life.Store(60)
	issuer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		part := base64.RawURLEncoding.EncodeToString
		now := time.Now().Unix()
		claims := fmt.Appendf(nil, `{"sub":"reader","iat":%d,"exp":%d}`, now-100, now+life.Load())
		fmt.Fprintf(w, `{"access_token": "%s.%s.", "token_type": "Bearer", "expires_in": 60}`, part([]byte(`{"alg":"none"}`)), part(claims))
	}))
	defer issuer.Close()
	topic := fmt.Sprintf("tokens_%d", time.Now().UnixNano())
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), kgo.AllowAutoTopicCreation(), kgo.DefaultProduceTopic(topic))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	produce := func(n int) {
		if err := client.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint(n))).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	source := func() *kafka.Source {
		s, err := kafka.New(kafka.Config{Brokers: []string{asks}, Topics: []string{topic}, SASL: kafka.SASL{
			Mechanism: "OAUTHBEARER", OAuth: kafka.OAuth{TokenURL: issuer.URL, ClientID: "reader", ClientSecret: "sesame"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}

	produce(0)
	r, err := source().Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	var got []debezium.Record
	const sessions = 3
	for start, n := time.Now(), 1; time.Since(start) < sessions*3*time.Second; n++ {
		for len(got) < n {
			batch, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, batch.Records...)
		}
		<-tick.C
		produce(n)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	for i, record := range got {
		if string(record.Value) != fmt.Sprint(i) {
			t.Fatalf("record %d is %s", i, record.Value)
		}
	}

	life.Store(-50) // such a token has ended
	_, err = source().Open(t.Context(), nil)
	var refused *kafka.Error
	if !errors.As(err, &refused) || refused.Class != kafka.NotAuthenticated || !strings.Contains(refused.Detail, "invalid_token") {
		t.Errorf("a token that has ended: got %v", err)
	}
}
