package kafka

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"replicator/debezium/kafka/broker"
)

const (
	clientID     = "the reader"
	clientSecret = "s3cret:/%+"
)

// issuer is a token endpoint, and what a broker knows of its tokens.
type issuer struct {
	mu     sync.Mutex
	issued []string
	good   string // the token that a broker lets in
	life   string // expires_in, as JSON
	broken int    // the status of its answers; 0: it gives tokens

	unwanted bool // brokers let nobody in
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	form := r.ParseForm()
	switch {
	case i.broken != 0:
		w.WriteHeader(i.broken)
	case form != nil, r.Method != http.MethodPost, id != "the+reader", secret != "s3cret%3A%2F%25%2B", r.Form.Encode() != "grant_type=client_credentials&scope=kafka+read":
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error": "invalid_client", "error_description": "%s is not its secret"}`, clientSecret)
	default:
		i.good = fmt.Sprintf("token-%d.x_y~z==", len(i.issued)+1)
		i.issued = append(i.issued, i.good)
		fmt.Fprintf(w, `{"access_token": %q, "token_type": "Bearer", "expires_in": %s}`, i.good, i.life)
	}
}

// set changes the endpoint under its lock.
func (i *issuer) set(change func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change()
}

// count is how many tokens there were.
func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.issued)
}

func newIssuer(t *testing.T, life string) (*issuer, OAuth) {
	t.Helper()
	i := &issuer{life: life}
	server := httptest.NewServer(i)
	t.Cleanup(server.Close)
	return i, OAuth{TokenURL: server.URL + "/token", ClientID: clientID, ClientSecret: clientSecret, Scope: "kafka read"}
}

// lets has a broker let in who shows the issuer's last token, and answer all others as Kafka does. (kfake has no OAUTHBEARER.)
func (i *issuer) lets(b *broker.Broker) {
	b.Intercept(kmsg.SASLHandshake, func(req kmsg.Request) (kmsg.Response, error, bool) {
		answer, ok := req.ResponseKind().(*kmsg.SASLHandshakeResponse)
		if asked, is := req.(*kmsg.SASLHandshakeRequest); !is || asked.Mechanism != "OAUTHBEARER" {
			return nil, fmt.Errorf("handshake %v", req), true
		}
		return answer, nil, ok
	})
	b.Intercept(kmsg.SASLAuthenticate, func(req kmsg.Request) (kmsg.Response, error, bool) {
		answer, ok := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		shown, is := req.(*kmsg.SASLAuthenticateRequest)
		i.mu.Lock()
		defer i.mu.Unlock()
		if ok && is && (i.unwanted || !bytes.Equal(shown.SASLAuthBytes, []byte("n,,\x01auth=Bearer "+i.good+"\x01\x01"))) {
			answer.SASLAuthBytes = []byte(`{"status":"invalid_token"}`)
		}
		return answer, nil, ok && is
	})
}

func withTokens(o OAuth) func(*Config) {
	return func(c *Config) { c.SASL = SASL{Mechanism: "OAUTHBEARER", OAuth: o} }
}

func TestOneTokenLogsManyConnectionsIn(t *testing.T) {
	t.Parallel()
	i, oauth := newIssuer(t, "300")
	b := startBroker(t, broker.Options{Nodes: 3})
	i.lets(b)
	read(t, b, withTokens(oauth))
	if n := i.count(); n != 1 {
		t.Errorf("%d tokens", n)
	}
}

// TestARefusedTokenIsAskedForAgain: the issuer's keys changed, and the token that connections shared is worth nothing.
func TestARefusedTokenIsAskedForAgain(t *testing.T) {
	t.Parallel()
	i, oauth := newIssuer(t, "300")
	b := startBroker(t, broker.Options{})
	i.lets(b)
	s := newSource(t, b, withTokens(oauth))
	check(t, s.Probe(testContext(t)))
	i.set(func() { i.good = "" })
	if _, err := s.Describe(testContext(t)); err != nil {
		t.Error(err)
	}
	if n := i.count(); n != 2 {
		t.Errorf("%d tokens, want 2", n)
	}
	// One that is refused although it is new is refused for good.
	i.set(func() { i.unwanted = true })
	_, err := newSource(t, b, withTokens(oauth)).Describe(testContext(t))
	if e := classed(t, err, NotAuthenticated); !strings.Contains(e.Detail, "invalid_token") || strings.Contains(e.Error(), "token-") {
		t.Errorf("got %v", e)
	}
}

func TestATokenIsRenewedBeforeItEnds(t *testing.T) {
	t.Parallel()
	i, oauth := newIssuer(t, `"100"`) // a text, as some endpoints write it
	b := newBearer(oauth)
	start := time.Now()
	for _, step := range []struct {
		after  time.Duration // since the last one
		broken int
		want   string // empty: an error
	}{
		{0, 0, "token-1.x_y~z=="},
		{79 * time.Second, http.StatusInternalServerError, "token-1.x_y~z=="}, // not asked
		{2 * time.Second, http.StatusInternalServerError, "token-1.x_y~z=="},  // asked in vain, and still good
		{0, 0, "token-2.x_y~z=="},
		{101 * time.Second, http.StatusBadGateway, ""},
		{0, 0, "token-3.x_y~z=="},
	} {
		start = start.Add(step.after)
		b.now = func() time.Time { return start }
		i.set(func() { i.broken = step.broken })
		got, _, err := b.current(testContext(t))
		if got != step.want || (err == nil) != (step.want != "") {
			t.Errorf("got %q, %v; want %q", got, err, step.want)
		}
		if err != nil && unwelcome(err) != nil {
			t.Errorf("%v does not pass", err)
		}
	}
}

func TestTokensWithoutAnEndAreAskedForEachTime(t *testing.T) {
	t.Parallel()
	i, oauth := newIssuer(t, "null")
	b := newBearer(oauth)
	for n := range 3 {
		if got, _, err := b.current(testContext(t)); err != nil || got != i.good || i.count() != n+1 {
			t.Errorf("got %q, %v after %d tokens", got, err, i.count())
		}
	}
}

// TestTokensThatCannotBeHadSayWhy, and never show the secret, even if the endpoint does.
func TestTokensThatCannotBeHadSayWhy(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	answer := func(path string, status int, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/good")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		})
	}
	answer("/good", 200, `{"access_token": "a.b", "expires_in": 60}`)
	answer("/moved", 307, "")
	answer("/denied", 401, `{"error": "invalid_client", "error_description": "`+clientSecret+` is not its secret"}`)
	answer("/page", 200, "<html>welcome</html>")
	answer("/mac", 200, `{"access_token": "a.b", "token_type": "mac"}`)
	answer("/ends", 200, `{"access_token": "a\u0001host=x"}`)
	answer("/busy", 503, "")
	answer("/missing", 404, "")
	server := httptest.NewUnstartedServer(mux)
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	t.Cleanup(server.Close)
	trusting := func() (*tls.Config, error) { return server.Client().Transport.(*http.Transport).TLSClientConfig, nil }
	for path, want := range map[string]struct {
		words string
		final bool
	}{
		"/moved":   {"307", true},
		"/denied":  {`401 Unauthorized (invalid_client); see to source.sasl.token_url, client_id, client_secret and scope`, true},
		"/page":    {"holds no access_token", true},
		"/mac":     {`type "mac"`, true},
		"/ends":    {"holds no access_token", true},
		"/busy":    {"503", false},
		"/missing": {"404", false},
	} {
		o := OAuth{TokenURL: server.URL + path, ClientID: clientID, ClientSecret: clientSecret, TLS: trusting}
		_, _, err := newBearer(o).current(testContext(t))
		if err == nil || !strings.Contains(err.Error(), want.words) || (unwelcome(err) != nil) != want.final || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want %q", path, err, want.words)
		}
	}
	o := OAuth{TokenURL: server.URL + "/good", ClientID: clientID, ClientSecret: clientSecret, TLS: trusting}
	if token, _, err := newBearer(o).current(testContext(t)); err != nil || token != "a.b" {
		t.Errorf("got %q, %v", token, err)
	}
	o.TLS = nil
	if _, _, err := newBearer(o).current(testContext(t)); err == nil || unwelcome(err) == nil || !strings.Contains(err.Error(), "source.sasl.tls: ca") {
		t.Errorf("an unknown authority: got %v", err)
	}
	for _, wrong := range []OAuth{
		{TokenURL: "idp.test/token", ClientID: "c", ClientSecret: "s3cret"},
		{TokenURL: "https://c:s3cret@idp.test", ClientID: "c", ClientSecret: "s3cret"},
		{TokenURL: "https://idp.test", ClientSecret: "s3cret"},
		{TokenURL: "https://idp.test", ClientID: "c"},
		{TokenURL: "http://[s3cret", ClientID: "c", ClientSecret: "s"},
	} {
		_, err := New(Config{Brokers: []string{"127.0.0.1:1"}, Topics: []string{"t"}, SASL: SASL{Mechanism: "OAUTHBEARER", OAuth: wrong}})
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v", wrong.TokenURL, err)
		}
	}
}
