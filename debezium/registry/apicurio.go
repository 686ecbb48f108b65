package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"replicator/debezium"
)

// native says whether the URL is that of Apicurio's own API.
func (c *Client) native() bool { return strings.Contains(c.base.Path, "/apis/registry/v") }

// own returns the address of Apicurio's own API, nil if the registry is another one. Both of its versions give schemas
// by id in the same way.
func (c *Client) own(ctx context.Context) (*url.URL, error) {
	c.mu.Lock()
	known, base := c.asked, c.apicurio
	c.mu.Unlock()
	if known {
		return base, nil
	}
	bases := []*url.URL{c.base}
	if !c.native() {
		root, _, _ := strings.Cut(c.base.Path, "/apis/ccompat/")
		bases = nil
		for _, version := range []string{"/apis/registry/v3", "/apis/registry/v2"} {
			b := *c.base
			b.Path = root + version
			bases = append(bases, &b)
		}
	}
	var found *url.URL
	for _, b := range bases {
		answer, err := c.ask(ctx, b, "/system/info")
		var refused *answerError
		if errors.As(err, &refused) && (!refused.passes() || refused.code == http.StatusNotFound) {
			continue // another registry, or a proxy that knows no such path
		}
		if err != nil {
			return nil, err
		}
		var info struct {
			Name string `json:"name"`
		}
		// Its images call it Apicurio Registry (SQL), the archive that it is also published as apicurio-registry.
		if json.Unmarshal(answer, &info) == nil && strings.Contains(strings.ToLower(info.Name), "apicurio") {
			found = b
			break
		}
	}
	if c.native() {
		found = c.base
	}
	c.mu.Lock()
	c.asked, c.apicurio = true, found
	c.mu.Unlock()
	return found, nil
}

// numbered asks for the schema with an id of one numbering.
func (c *Client) numbered(ctx context.Context, base *url.URL, n Numbering, id int64) (string, error) {
	path := "/ids/globalIds/%d"
	if n == ContentIDs {
		path = "/ids/contentIds/%d"
	}
	answer, err := c.ask(ctx, base, fmt.Sprintf(path, id))
	return string(answer), unknown(err)
}

// either asks for the schema with an id of which it is not said whether it is a global or a content id. What is found
// out once holds for all ids: it is the serializers' option.
func (c *Client) either(ctx context.Context, base *url.URL, id int64, topic string) (string, error) {
	c.mu.Lock()
	ids := c.ids
	c.mu.Unlock()
	if ids != AutoIDs {
		return c.numbered(ctx, base, ids, id)
	}
	global, errGlobal := c.numbered(ctx, base, GlobalIDs, id)
	noGlobal := errors.Is(errGlobal, debezium.ErrNoSchema)
	if errGlobal != nil && !noGlobal {
		return "", errGlobal
	}
	content, errContent := c.numbered(ctx, base, ContentIDs, id)
	noContent := errors.Is(errContent, debezium.ErrNoSchema)
	if errContent != nil && (!noContent || noGlobal) {
		return "", errContent
	}
	rank := closeness(global, topic) - closeness(content, topic)
	switch {
	case !noGlobal && !noContent && global == content:
		return global, nil // that tells nothing about the next one
	case !noGlobal && (noContent || rank > 0):
		c.decide(GlobalIDs)
		return global, nil
	case !noContent && (noGlobal || rank < 0):
		c.decide(ContentIDs)
		return content, nil
	}
	return "", fmt.Errorf("%w: as a global id and as a content id of Apicurio %d is another schema, and nothing tells which of them the serializer wrote; set source.registry.ids to its option use-id, global or content",
		debezium.ErrNoSchema, id)
}

// decide keeps what was found out first.
func (c *Client) decide(ids Numbering) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ids == AutoIDs {
		c.ids = ids
	}
}

// closeness says how much a schema is one for a topic by its name: Debezium names the schemas of a table's topic after
// the topic, and those of its other topics after itself.
func closeness(schema, topic string) int {
	namespace := namespaceOf(schema)
	switch {
	case namespace != "" && (namespace == topic || namespace == debezium.AvroName(topic, true)):
		return 2
	case strings.HasPrefix(namespace, "io.debezium.connector."):
		return 1
	}
	return 0
}

// namespaceOf is what a schema's name begins with: Avro's namespace, Protobuf's package.
func namespaceOf(schema string) string {
	if formatOf(schema) == debezium.Protobuf {
		_, rest, _ := strings.Cut(schema, "\npackage ")
		name, _, _ := strings.Cut(rest, ";")
		return name
	}
	var s struct {
		Connect   string `json:"connect.name"`
		Namespace string `json:"namespace"`
	}
	if json.Unmarshal([]byte(schema), &s) != nil {
		return ""
	}
	if i := strings.LastIndexByte(s.Connect, '.'); i >= 0 {
		return s.Connect[:i]
	}
	return s.Namespace
}
