package kafka

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/segmentio/kafka-go/sasl"
)

// OAuth is how to get the tokens that OAUTHBEARER logs in with: OAuth 2.0's client credentials grant (RFC 6749, section 4.4).
type OAuth struct {
	TokenURL     string // the token endpoint, http or https
	ClientID     string
	ClientSecret string
	Scope        string // what the token is to be good for, words with spaces between them; empty: what the endpoint gives to everybody
	// TLS is asked before each request to an https endpoint; nil: the system's authorities are trusted.
	TLS func() (*tls.Config, error)
}

const (
	tokenTimeout = 10 * time.Second
	maxToken     = 1 << 20 // bytes of an answer; Kafka takes no longer request than 512 KiB before the log-in
	// A token is asked for anew when a fifth of its life is left, so that it does not end between here and the broker.
	freshPart = 5
)

// CheckTokenURL says whether a URL can be that of a token endpoint. Its error does not show it.
func CheckTokenURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return errors.New("must be a token endpoint's http://HOST/PATH or https://HOST/PATH")
	case u.User != nil:
		return errors.New("must not hold a user: the client's id and secret are given apart")
	}
	return nil
}

// check says what is missing or wrong.
func (o *OAuth) check() error {
	if err := CheckTokenURL(o.TokenURL); err != nil {
		return fmt.Errorf("the token endpoint's URL %w", err)
	}
	if o.ClientID == "" || o.ClientSecret == "" {
		return errors.New("OAUTHBEARER needs a client's id and secret")
	}
	return nil
}

// bearer is kafka-go's mechanism. Its tokens are shared by all connections.
type bearer struct {
	oauth *OAuth
	now   func() time.Time
	turn  chan struct{} // holds one element while nobody looks at what follows
	token string
	ends  time.Time // from when on the token is not given to a new connection
	renew time.Time // from when on another is asked for
}

func newBearer(o OAuth) *bearer {
	b := &bearer{oauth: &o, now: time.Now, turn: make(chan struct{}, 1)}
	b.turn <- struct{}{}
	return b
}

// Name implements [sasl.Mechanism].
func (b *bearer) Name() string { return "OAUTHBEARER" }

// Start implements [sasl.Mechanism]: the client's first message of RFC 7628, section 3.1.
func (b *bearer) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	token, used, err := b.current(ctx)
	if err != nil {
		return nil, nil, err
	}
	return &bearerAnswer{b, token, used}, []byte("n,,\x01auth=Bearer " + token + "\x01\x01"), nil
}

// bearerAnswer reads what a broker says to a token.
type bearerAnswer struct {
	bearer *bearer
	token  string
	used   bool // by connections before this one
}

// Next implements [sasl.StateMachine]. An empty answer is success. Any other is why not: where the token is an older one, its issuer may have
// changed its keys since, and the next connection asks for another.
func (a *bearerAnswer) Next(ctx context.Context, challenge []byte) (bool, []byte, error) {
	if len(challenge) == 0 {
		return true, nil, nil
	}
	var said struct {
		Status string `json:"status"`
	}
	why := "a broker refuses it"
	if json.Unmarshal(challenge, &said) == nil {
		why += known(said.Status)
	}
	why += "; see to the scope that it asks for, and to the broker's settings of OAUTHBEARER"
	return false, nil, errors.Join(&tokenError{text: why, final: !a.used}, a.bearer.forget(ctx, a.token))
}

// lock waits for its turn at the token; unlock must follow unless there is an error.
func (b *bearer) lock(ctx context.Context) error {
	select {
	case <-b.turn:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for a token: %w", ctx.Err())
	}
}

func (b *bearer) unlock() { b.turn <- struct{}{} }

// forget has the next connection ask for another token than this one.
func (b *bearer) forget(ctx context.Context, token string) error {
	if err := b.lock(ctx); err != nil {
		return err
	}
	defer b.unlock()
	if b.token == token {
		b.ends, b.renew = time.Time{}, time.Time{}
	}
	return nil
}

// current returns a token that has some of its life before it, and whether it was returned before. While the endpoint fails, the
// former is used to its end.
func (b *bearer) current(ctx context.Context) (token string, used bool, err error) {
	if err := b.lock(ctx); err != nil {
		return "", false, err
	}
	defer b.unlock()
	now := b.now()
	if now.Before(b.renew) {
		return b.token, true, nil
	}
	token, life, err := b.oauth.ask(ctx)
	if err != nil {
		if now.Before(b.ends) {
			return b.token, true, nil
		}
		return "", false, err
	}
	b.token, b.ends, b.renew = token, now.Add(life), now.Add(life-life/freshPart)
	return token, false, nil
}

// tokenError is a token that could not be had. It never holds the secret.
type tokenError struct {
	text  string
	final bool // asking again brings the same
	err   error
}

func (e *tokenError) Error() string { return "get a token from source.sasl.token_url: " + e.text }
func (e *tokenError) Unwrap() error { return e.err }

// ask asks the endpoint for a token and returns how long it lives; 0 if the endpoint does not say.
func (o *OAuth) ask(ctx context.Context) (token string, life time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	form := url.Values{"grant_type": {"client_credentials"}}
	if o.Scope != "" {
		form.Set("scope", o.Scope)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, o.TokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, &tokenError{text: "its URL cannot be used", final: true}
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	req.SetBasicAuth(url.QueryEscape(o.ClientID), url.QueryEscape(o.ClientSecret)) // encoded first: RFC 6749, section 2.3.1
	client, err := o.client()
	if err != nil {
		return "", 0, &tokenError{text: err.Error(), err: err}
	}
	answer, err := client.Do(req)
	if err != nil {
		var certificate *tls.CertificateVerificationError
		if errors.As(err, &certificate) {
			return "", 0, &tokenError{text: err.Error() + "; see to source.sasl.tls: ca is the certificate of the authority that signed the endpoint's, server_name a name that it is for", final: true}
		}
		return "", 0, &tokenError{text: err.Error(), err: err}
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxToken+1))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return "", 0, &tokenError{text: err.Error(), err: err}
	}
	if answer.StatusCode != http.StatusOK {
		return "", 0, refusedToken(answer.StatusCode, body)
	}
	return readToken(body)
}

// client is for one request: a token lives for many connections. It follows no redirect, which would take the secret elsewhere.
func (o *OAuth) client() (*http.Client, error) {
	own := http.DefaultTransport.(*http.Transport).Clone()
	own.DisableKeepAlives = true
	if o.TLS != nil {
		config, err := o.TLS()
		if err != nil {
			return nil, fmt.Errorf("source.sasl.tls: %w", err)
		}
		own.TLSClientConfig = config.Clone() // the transport writes to it
	}
	return &http.Client{Transport: own, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// reasons are the codes of errors of RFC 6749, section 5.2, and RFC 7628, section 3.2.2. Whatever else is said of an error may
// repeat a secret, and is not shown.
var reasons = []string{
	"invalid_request", "invalid_client", "invalid_grant", "unauthorized_client", "unsupported_grant_type", "invalid_scope",
	"invalid_token", "insufficient_scope",
}

// known returns a code in brackets, and nothing for what is none.
func known(reason string) string {
	if !slices.Contains(reasons, reason) {
		return ""
	}
	return " (" + reason + ")"
}

// refusedToken is an answer that is not OK.
func refusedToken(code int, body []byte) error {
	var a struct {
		Error string `json:"error"`
	}
	text := fmt.Sprintf("it answers %d %s", code, http.StatusText(code))
	if json.Unmarshal(body, &a) == nil {
		text += known(a.Error)
	}
	final := code < 500 && code != http.StatusTooManyRequests && code != http.StatusRequestTimeout && code != http.StatusNotFound // a proxy's, before the endpoint is up
	if final {
		text += "; see to source.sasl.token_url, client_id, client_secret and scope"
	}
	return &tokenError{text: text, final: final}
}

// readToken reads a successful answer (RFC 6749, section 5.1).
func readToken(body []byte) (string, time.Duration, error) {
	var a struct {
		Token string      `json:"access_token"`
		Type  string      `json:"token_type"`
		Life  json.Number `json:"expires_in"` // some endpoints write it as a text
	}
	if len(body) > maxToken || json.Unmarshal(body, &a) != nil || !isToken(a.Token) {
		return "", 0, &tokenError{text: "its answer holds no access_token; is this the URL of the token endpoint", final: true}
	}
	if a.Type != "" && !strings.EqualFold(a.Type, "bearer") {
		return "", 0, &tokenError{text: fmt.Sprintf("its token is of type %.20q, and Kafka takes bearer tokens alone", a.Type), final: true}
	}
	seconds, err := a.Life.Float64()
	if err != nil || seconds < 0 {
		seconds = 0 // then each connection asks
	}
	return a.Token, time.Duration(min(seconds, 24*3600) * float64(time.Second)), nil
}

// isToken says whether s is one by RFC 6750, section 2.1: nothing in it can end the message that it is sent in.
func isToken(s string) bool {
	return s != "" && strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~+/=") == ""
}
