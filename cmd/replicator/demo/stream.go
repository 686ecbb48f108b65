package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"replicator/debezium"
	"replicator/debezium/debeziumtest"
)

// The recorded connector's names.
const (
	connector = "plain"      // its topic.prefix, and so its schema-change topic
	database  = "shop"       // the source's database
	signals   = "dbz_signal" // the connector's own table
	firstDDL  = "ADD COLUMN phone"
)

// stream is the recorded stream up to the first ALTER TABLE, in an order that a connector could have written it in.
type stream struct {
	schemas []debezium.Record // of the schema-change topic
	rows    []debezium.Record
}

// position is where in MySQL's binary log an event came from.
type position struct {
	File string `json:"file"`
	Pos  int64  `json:"pos"`
}

func (p position) before(q position) bool {
	return p.File < q.File || p.File == q.File && p.Pos < q.Pos
}

// envelope is what the demo has to know of an event.
type envelope struct {
	Payload struct {
		Source position `json:"source"`
		DDL    string   `json:"ddl"`
	} `json:"payload"`
}

// loadStream reads the recorded topics.
func loadStream(files fs.FS) (stream, error) {
	var s stream
	all, err := debeziumtest.ReplayFS(files, connector)
	if err != nil {
		return s, err
	}
	end, err := firstAlter(all)
	if err != nil {
		return s, err
	}
	kept := map[debezium.Partition]bool{} // whether the partition's last event was: a tombstone goes with it
	for _, r := range all {
		if r.Partition.Topic == topic(database, signals) {
			continue
		}
		if r.Value != nil {
			var e envelope
			if err := json.Unmarshal(r.Value, &e); err != nil {
				return s, fmt.Errorf("recorded event %v offset %d: %w", r.Partition, r.Offset, err)
			}
			kept[r.Partition] = e.Payload.Source.before(end)
		}
		switch {
		case !kept[r.Partition]:
		case r.Partition.Topic == connector:
			s.schemas = append(s.schemas, r)
		default:
			s.rows = append(s.rows, r)
		}
	}
	return s, nil
}

// firstAlter returns the position of the first change of a table's shape.
func firstAlter(records []debezium.Record) (position, error) {
	for _, r := range records {
		var e envelope
		if r.Partition.Topic == connector && json.Unmarshal(r.Value, &e) == nil && strings.Contains(e.Payload.DDL, firstDDL) {
			return e.Payload.Source, nil
		}
	}
	return position{}, errors.New("the recorded stream has no " + firstDDL)
}

func topic(database, table string) string { return connector + "." + database + "." + table }

// copyName is the database of the nth copy.
func copyName(n int) string { return fmt.Sprintf("%s%02d", database, n) }

// nth returns the stream of another database: every mention of the source's database is replaced.
func (s stream) nth(n int) (schemas, rows []debezium.Record) {
	name := copyName(n)
	rename := func(records []debezium.Record, in ...string) []debezium.Record {
		out := make([]debezium.Record, len(records))
		for i, r := range records {
			r.Partition.Topic = strings.Replace(r.Partition.Topic, "."+database+".", "."+name+".", 1)
			for _, text := range in {
				if r.Value != nil {
					r.Value = bytes.ReplaceAll(r.Value, []byte(text), []byte(strings.Replace(text, database, name, 1)))
				}
			}
			out[i] = r
		}
		return out
	}
	schemas = rename(s.schemas, `"db":"`+database+`"`, `"databaseName":"`+database+`"`, `"id":"\"`+database+`\".`)
	rows = rename(s.rows, `"db":"`+database+`"`)
	return schemas, rows
}

// topics returns the topics of records, once each.
func topics(records []debezium.Record) []string {
	var names []string
	seen := map[string]bool{}
	for _, r := range records {
		if !seen[r.Partition.Topic] {
			seen[r.Partition.Topic] = true
			names = append(names, r.Partition.Topic)
		}
	}
	return names
}
