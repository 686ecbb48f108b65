package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"

	"replicator/debezium"
)

// maxReferences bounds the schemas that one refers to, with those that they refer to.
const maxReferences = 100

// entry is a schema in an answer of Confluent's API.
type entry struct {
	Schema     string      `json:"schema"`
	SchemaType string      `json:"schemaType"` // left out for Avro
	References []reference `json:"references"`
}

// reference is what a schema says of a file that it imports: its name there, and the version of a subject that it is.
type reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int64  `json:"version"`
}

// confluent asks for the schema with an id, and for what it refers to.
func (c *Client) confluent(ctx context.Context, id int64) (debezium.Registered, error) {
	e, err := c.entry(ctx, fmt.Sprintf("/schemas/ids/%d", id))
	switch {
	case err != nil:
		return debezium.Registered{}, err
	case e.SchemaType == "PROTOBUF":
		imports, err := c.imports(ctx, e.References)
		return debezium.Registered{Format: debezium.Protobuf, Text: e.Schema, Imports: imports}, err
	case e.SchemaType != "" && e.SchemaType != "AVRO":
		return debezium.Registered{}, fmt.Errorf("%w: the schema is one of type %q", debezium.ErrNoSchema, e.SchemaType)
	case len(e.References) > 0:
		return debezium.Registered{}, fmt.Errorf("%w: the schema refers to other subjects, which Kafka Connect's do not", debezium.ErrNoSchema)
	}
	return debezium.Registered{Format: debezium.Avro, Text: e.Schema}, nil
}

// entry asks for a schema by its path.
func (c *Client) entry(ctx context.Context, path string) (entry, error) {
	var e entry
	answer, err := c.ask(ctx, c.base, path)
	if err != nil {
		return e, unknown(err)
	}
	if err := json.Unmarshal(answer, &e); err != nil {
		return e, fmt.Errorf("the schema registry's answer: %w", err)
	}
	return e, nil
}

// imports asks for the schemas that one refers to. The same name is the same file.
func (c *Client) imports(ctx context.Context, references []reference) (map[string]string, error) {
	var out map[string]string
	for len(references) > 0 {
		r := references[0]
		references = references[1:]
		if _, known := out[r.Name]; known {
			continue
		}
		if len(out) == maxReferences {
			return nil, fmt.Errorf("%w: the schema refers to more than %d others", debezium.ErrNoSchema, maxReferences)
		}
		e, err := c.entry(ctx, fmt.Sprintf("/subjects/%s/versions/%d", url.PathEscape(r.Subject), r.Version))
		if err != nil {
			return nil, fmt.Errorf("what it refers to as %q: %w", r.Name, err)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[r.Name] = e.Schema
		references = append(references, e.References...)
	}
	return out, nil
}
