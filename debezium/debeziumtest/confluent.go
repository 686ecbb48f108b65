package debeziumtest

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"replicator/debezium"
)

// Confluent are the recorded schemas of Protobuf records, by the ids that these begin with, and those that they refer to. It stands for
// the registry: as a [debezium.Schemas], and as a server of Confluent's API.
type Confluent map[int64]ConfluentSchema

// ConfluentSchema is a schema in Confluent's API.
type ConfluentSchema struct {
	Schema     string               `json:"schema"`
	Type       string               `json:"schemaType"`
	References []ConfluentReference `json:"references,omitempty"`
	ConfluentReference
}

// ConfluentReference names a version of a subject, and what another schema imports it as.
type ConfluentReference struct {
	Name    string `json:"name,omitempty"`
	Subject string `json:"subject,omitempty"`
	Version int64  `json:"version,omitempty"`
}

// LoadConfluent reads a file with one schema a line, as the registry answered, with its id:
//
//	{"id": 7, "schemaType": "PROTOBUF", "references": [], "schema": "syntax = ..."}
func LoadConfluent(file string) (Confluent, error) {
	type line struct {
		ID int64 `json:"id"`
		ConfluentSchema
	}
	out := Confluent{}
	return out, eachSchema(file, func(l *line) { out[l.ID] = l.ConfluentSchema })
}

// Schema implements [debezium.Schemas].
func (s Confluent) Schema(_ context.Context, id debezium.SchemaID, _ string) (debezium.Registered, error) {
	found, ok := s[id.ID]
	if !ok || id.Kind != debezium.WireID {
		return debezium.Registered{}, fmt.Errorf("%w: id %v", debezium.ErrNoSchema, id)
	}
	out := debezium.Registered{Format: debezium.Protobuf, Text: found.Schema, Imports: map[string]string{}}
	for _, r := range found.References {
		out.Imports[r.Name] = s.version(r.Subject, r.Version).Schema
	}
	return out, nil
}

func (s Confluent) version(subject string, version int64) ConfluentSchema {
	for _, e := range s {
		if e.Subject == subject && e.Version == version {
			return e
		}
	}
	return ConfluentSchema{}
}

// ServeHTTP answers as Confluent's registry does.
func (s Confluent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/schemas/types" {
		answer(w, http.StatusOK, []string{"AVRO", "PROTOBUF"})
		return
	}
	var found ConfluentSchema
	if digits, ok := strings.CutPrefix(r.URL.Path, "/schemas/ids/"); ok {
		if id, err := strconv.ParseInt(digits, 10, 64); err == nil {
			found = s[id]
		}
	} else if path, ok := strings.CutPrefix(r.URL.Path, "/subjects/"); ok {
		subject, version, _ := strings.Cut(path, "/versions/")
		if n, err := strconv.ParseInt(version, 10, 64); err == nil {
			found = s.version(subject, n)
		}
	}
	if found.Schema == "" {
		answer(w, http.StatusNotFound, map[string]any{"error_code": 40403, "message": "Schema not found"})
		return
	}
	found.Type = "PROTOBUF"
	answer(w, http.StatusOK, found)
}
