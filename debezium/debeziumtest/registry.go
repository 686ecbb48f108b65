package debeziumtest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"

	"replicator/debezium"
)

// Schemas are the recorded schemas of an Apicurio registry, and stand for it: as a [debezium.Schemas] for which all ids
// are global ids, and as a server of its two APIs, Confluent's under /apis/ccompat/v7 and its own under
// /apis/registry/v2.
type Schemas map[debezium.SchemaID]string

// LoadSchemas reads a file with one schema a line:
//
//	{"id": 7, "global_id": 5, "schema": "..."}
//
// The id is the content id, which Apicurio's Confluent-compatible API has; a schema's text has one. The global id is
// another number, of one version of one topic's schema.
func LoadSchemas(file string) (Schemas, error) {
	type line struct {
		ID       int64  `json:"id"`
		GlobalID int64  `json:"global_id"`
		Schema   string `json:"schema"`
	}
	out := Schemas{}
	return out, eachSchema(file, func(l *line) {
		out[debezium.SchemaID{Kind: debezium.ContentID, ID: l.ID}] = l.Schema
		out[debezium.SchemaID{Kind: debezium.GlobalID, ID: l.GlobalID}] = l.Schema
	})
}

// eachSchema reads a file with one schema a line.
func eachSchema[T any](file string, take func(*T)) (err error) {
	f, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("recorded schemas: %w", err)
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fmt.Errorf("recorded schemas: %w", e)
		}
	}()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var l T
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("recorded schemas %s: %w", file, err)
		}
		take(&l)
	}
	return lines.Err()
}

// Schema implements [debezium.Schemas].
func (s Schemas) Schema(_ context.Context, id debezium.SchemaID, _ string) (debezium.Registered, error) {
	if id.Kind != debezium.ContentID {
		id.Kind = debezium.GlobalID
	}
	if text, ok := s[id]; ok {
		return debezium.Registered{Format: debezium.Avro, Text: text}, nil
	}
	return debezium.Registered{}, fmt.Errorf("%w: id %v", debezium.ErrNoSchema, id)
}

// compatible is where Confluent's API has schemas by id.
const compatible = "/apis/ccompat/v7/schemas/ids/"

// ServeHTTP answers as a registry does.
func (s Schemas) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/apis/ccompat/v7/schemas/types":
		answer(w, http.StatusOK, []string{"AVRO"})
		return
	case "/apis/registry/v2/system/info":
		answer(w, http.StatusOK, map[string]any{"name": "Apicurio Registry (In Memory)", "version": "2.6.13.Final"})
		return
	}
	for prefix, kind := range map[string]debezium.IDKind{
		compatible: debezium.ContentID, "/apis/registry/v2/ids/globalIds/": debezium.GlobalID, "/apis/registry/v2/ids/contentIds/": debezium.ContentID,
	} {
		digits, ok := strings.CutPrefix(r.URL.Path, prefix)
		if !ok {
			continue
		}
		id, err := strconv.ParseInt(digits, 10, 64)
		text, known := s[debezium.SchemaID{Kind: kind, ID: id}]
		switch {
		case err != nil || !known:
			answer(w, http.StatusNotFound, map[string]any{"error_code": 40403, "message": "Schema " + digits + " not found"})
		case prefix == compatible:
			answer(w, http.StatusOK, map[string]any{"schema": text})
		default:
			answer(w, http.StatusOK, json.RawMessage(text))
		}
		return
	}
	answer(w, http.StatusNotFound, map[string]any{"message": "no such resource"})
}

// answer writes v. The client of a server that goes away sees to that itself.
func answer(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	b, err := json.Marshal(v)
	if err != nil {
		code, b = http.StatusInternalServerError, nil
	}
	w.WriteHeader(code)
	if _, err := w.Write(b); err != nil {
		return
	}
}
