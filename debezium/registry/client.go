package registry

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"replicator/debezium"
)

// Config is how a registry is reached.
type Config struct {
	// URL is the registry's address, http or https. Of Apicurio it is that of its Confluent-compatible API, as in
	// http://127.0.0.1:8080/apis/ccompat/v7, or of its own, as in http://127.0.0.1:8080/apis/registry/v3.
	URL string
	// Username and Password are for basic authentication; empty: none, or those in the URL.
	Username, Password string
	// TLS is for an https URL, and is asked before each request: an answer other than the last, such as one with renewed
	// certificates, is for new connections. What it returns is not changed. nil: the system's authorities are trusted.
	TLS func() (*tls.Config, error)
	// IDs says what the ids before a value are; it matters for Apicurio only, which has two numberings.
	IDs Numbering
}

// Numbering is which of Apicurio's two numbers its serializers write (their option use-id). The same number can name
// two schemas, and nothing in a record says which is meant.
type Numbering string

// The numberings. AutoIDs finds out by schemas that exist in one numbering only, or that are of the record's topic by
// their name, and fails where that does not tell.
const (
	AutoIDs    Numbering = "auto"
	GlobalIDs  Numbering = "global"
	ContentIDs Numbering = "content"
)

// Bounds of asking.
const (
	attempts        = 5 // of a registry that fails
	unknownAttempts = 3 // of one that does not know the id: a follower learns of a new schema after its leader
	firstDelay      = 100 * time.Millisecond
	lastDelay       = 2 * time.Second
	requestTimeout  = 10 * time.Second
	maxAnswer       = 16 << 20 // bytes
	maxMessage      = 200      // bytes of a registry's message in an error
)

// Client asks one registry. It is safe for concurrent use.
type Client struct {
	base     *url.URL // without user, query and final slash
	username string
	password string
	tls      func() (*tls.Config, error) // nil: http never changes

	mu       sync.Mutex
	http     *http.Client // its connections are those of secured
	secured  *tls.Config
	ids      Numbering
	asked    bool     // whether the registry is Apicurio is known:
	apicurio *url.URL // the address of its own API; nil: it is not
}

var _ debezium.Schemas = (*Client)(nil)

// New returns a Client. It connects to nothing.
func New(c Config) (*Client, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("the registry's URL must be http://host:port or https://host:port, with its path if it has one")
	}
	out := &Client{username: c.Username, password: c.Password, ids: cmp.Or(c.IDs, AutoIDs), tls: c.TLS, http: &http.Client{Timeout: requestTimeout}}
	if u.User != nil && c.Username == "" {
		out.username = u.User.Username()
		out.password, _ = u.User.Password()
	}
	out.base = &url.URL{Scheme: u.Scheme, Host: u.Host, Path: strings.TrimRight(u.Path, "/")}
	return out, nil
}

// Schema implements [debezium.Schemas]. It tries again for some seconds while the registry cannot be reached, or fails.
func (c *Client) Schema(ctx context.Context, id debezium.SchemaID, topic string) (debezium.Registered, error) {
	delay := firstDelay
	for attempt := 1; ; attempt++ {
		found, err := c.once(ctx, id, topic)
		var failed *answerError
		var untrusted *untrustedError
		switch {
		case err == nil, ctx.Err() != nil, attempt == attempts:
			return found, err
		case errors.Is(err, debezium.ErrNoSchema) && attempt == unknownAttempts:
			return debezium.Registered{}, err
		case errors.As(err, &failed) && !failed.passes(), errors.As(err, &untrusted):
			return debezium.Registered{}, err
		}
		wait := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			wait.Stop()
			return debezium.Registered{}, err
		case <-wait.C:
		}
		delay = min(2*delay, lastDelay)
	}
}

// Probe asks for what every registry answers, to find out whether it can be reached and lets this user in.
func (c *Client) Probe(ctx context.Context) error {
	path := "/schemas/types"
	if c.native() {
		path = "/system/info"
	}
	_, err := c.ask(ctx, c.base, path)
	return err
}

// once asks for a schema.
func (c *Client) once(ctx context.Context, id debezium.SchemaID, topic string) (debezium.Registered, error) {
	base, err := c.own(ctx)
	if err != nil {
		return debezium.Registered{}, err
	}
	if base == nil {
		if id.Kind == debezium.WireID {
			return c.confluent(ctx, id.ID)
		}
		return debezium.Registered{}, fmt.Errorf("%w: only Apicurio has such ids, and there is none at %s", debezium.ErrNoSchema, c.base)
	}
	var text string
	switch id.Kind {
	case debezium.GlobalID:
		text, err = c.numbered(ctx, base, GlobalIDs, id.ID)
	case debezium.ContentID:
		text, err = c.numbered(ctx, base, ContentIDs, id.ID)
	default:
		text, err = c.either(ctx, base, id.ID, topic)
	}
	return debezium.Registered{Format: formatOf(text), Text: text}, err
}

// formatOf tells a schema's format where the registry does not: Avro's are JSON.
func formatOf(text string) debezium.Format {
	if text = strings.TrimSpace(text); text == "" || strings.ContainsRune("{[\"", rune(text[0])) {
		return debezium.Avro
	}
	return debezium.Protobuf
}

// client returns what sends requests as TLS says now.
func (c *Client) client() (*http.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.tls == nil {
		return c.http, nil
	}
	secured, err := c.tls()
	if err != nil {
		return nil, fmt.Errorf("source.registry.tls: %w", err)
	}
	if c.secured != secured {
		c.http.CloseIdleConnections()
		own := http.DefaultTransport.(*http.Transport).Clone()
		own.TLSClientConfig = secured.Clone() // the transport writes to it
		c.http, c.secured = &http.Client{Timeout: requestTimeout, Transport: own}, secured
	}
	return c.http, nil
}

// ask sends a request and returns the body of an answer that is OK.
func (c *Client) ask(ctx context.Context, base *url.URL, path string) (_ []byte, err error) {
	address := base.JoinPath(path)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("ask the schema registry: %w", err)
	}
	req.Header.Set("Accept", "application/vnd.schemaregistry.v1+json, application/json, */*")
	if c.username != "" || c.password != "" {
		req.SetBasicAuth(c.username, c.password)
	}
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	answer, err := client.Do(req)
	if err != nil {
		return nil, unreached(err)
	}
	defer func() {
		if e := answer.Body.Close(); err == nil && e != nil {
			err = fmt.Errorf("ask the schema registry: %w", e)
		}
	}()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("ask the schema registry for %s: %w", address, err)
	}
	if answer.StatusCode != http.StatusOK {
		failed := &answerError{address: address.String(), code: answer.StatusCode, message: message(body)}
		if failed.code == http.StatusUnauthorized || failed.code == http.StatusForbidden {
			return nil, &deniedError{failed}
		}
		return nil, failed
	}
	if len(body) > maxAnswer {
		return nil, fmt.Errorf("%w: the answer to %s has more than %d bytes", debezium.ErrNoSchema, address, maxAnswer)
	}
	return body, nil
}

// message is what a registry says of an error, in Confluent's and Apicurio's answers.
func message(body []byte) string {
	var a struct {
		Message string `json:"message"`
		Title   string `json:"title"`
	}
	if json.Unmarshal(body, &a) != nil {
		return ""
	}
	m := strings.ToValidUTF8(a.Message, "?")
	if m == "" {
		m = strings.ToValidUTF8(a.Title, "?")
	}
	return strings.ToValidUTF8(m[:min(len(m), maxMessage)], "")
}
