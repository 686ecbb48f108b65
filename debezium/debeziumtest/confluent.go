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

// Confluent are the recorded schemas of Protobuf records, by the ids that these begin with. It stands for the registry: as a
// [debezium.Schemas], and as a server of Confluent's API.
type Confluent map[int64]string

// LoadConfluent reads a file with one schema a line:
//
//	{"id": 7, "schema": "syntax = ..."}
func LoadConfluent(file string) (_ Confluent, err error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("recorded schemas: %w", err)
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fmt.Errorf("recorded schemas: %w", e)
		}
	}()
	out := Confluent{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var l struct {
			ID     int64  `json:"id"`
			Schema string `json:"schema"`
		}
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("recorded schemas %s: %w", file, err)
		}
		out[l.ID] = l.Schema
	}
	return out, lines.Err()
}

// Schema implements [debezium.Schemas].
func (s Confluent) Schema(_ context.Context, id debezium.SchemaID, _ string) (debezium.Registered, error) {
	if text, ok := s[id.ID]; ok && id.Kind == debezium.WireID {
		return debezium.Registered{Format: debezium.Protobuf, Text: text}, nil
	}
	return debezium.Registered{}, fmt.Errorf("%w: id %v", debezium.ErrNoSchema, id)
}

// ServeHTTP answers as Confluent's registry does.
func (s Confluent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/schemas/types" {
		answer(w, http.StatusOK, []string{"AVRO", "PROTOBUF"})
		return
	}
	digits, _ := strings.CutPrefix(r.URL.Path, "/schemas/ids/")
	id, err := strconv.ParseInt(digits, 10, 64)
	text, known := s[id]
	if err != nil || !known {
		answer(w, http.StatusNotFound, map[string]any{"error_code": 40403, "message": "Schema not found"})
		return
	}
	answer(w, http.StatusOK, map[string]any{"schema": text, "schemaType": "PROTOBUF"})
}
