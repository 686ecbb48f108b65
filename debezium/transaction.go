package debezium

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Marker is what a record of the connector's transaction topic says, beside which transaction it is of (Event.Txn). The form is
// that of Debezium's documentation of each connector, "Transaction metadata".
type Marker struct {
	End         bool              // END; otherwise BEGIN
	Events      int64             // of END: how many events the transaction has
	Collections []CollectionCount // of END: how many of them each table has
}

// CollectionCount is how many events a transaction has of one table.
type CollectionCount struct {
	Collection string // database.table, schema.table or database.schema.table, as the connector names tables
	Events     int64
}

// maxCollections bounds the tables of one transaction that are taken from a record.
const maxCollections = 100_000

// marker makes the marker of a transaction topic's record.
func (p *payload) marker(e *Event) error {
	if p.status != "BEGIN" && p.status != "END" {
		return fmt.Errorf("its status is %q; known are BEGIN and END", p.status)
	}
	if p.id == "" {
		return fmt.Errorf("it is the %s of a transaction without an id", p.status)
	}
	e.Txn = txnOf(p.id)
	e.Marker = &Marker{End: p.status == "END", Events: p.count}
	if len(p.collections) == 0 {
		return nil
	}
	var list []struct {
		Collection string `json:"data_collection"`
		Events     int64  `json:"event_count"`
	}
	if err := json.Unmarshal(p.collections, &list); err != nil {
		return fmt.Errorf("data_collections: %w", err)
	}
	if len(list) > maxCollections {
		return fmt.Errorf("data_collections: %d tables; at most %d are read", len(list), maxCollections)
	}
	for _, c := range list {
		if c.Events < 0 {
			return fmt.Errorf("data_collections: %d events of %q cannot be", c.Events, c.Collection)
		}
		e.Marker.Collections = append(e.Marker.Collections, CollectionCount{c.Collection, c.Events})
	}
	return nil
}

// txnOf returns what is the same in all that a connector says of one transaction. PostgreSQL's is the number of the transaction
// and an LSN, and the LSN goes on with the events.
func txnOf(id string) string {
	if number, lsn, ok := strings.Cut(id, ":"); ok && allDigits(number) && allDigits(lsn) {
		return number
	}
	return id
}

func allDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// Names says whether collection, as a transaction's END names it, is the table that the event is of: connectors leave out the
// database, or the schema.
func (s *Source) Names(collection string) bool {
	rest, ok := strings.CutSuffix(collection, s.Table)
	for _, part := range []string{s.Schema, s.Database} {
		if !ok {
			return false
		}
		if rest == "" {
			return true
		}
		if part == "" {
			continue
		}
		if rest, ok = strings.CutSuffix(rest, "."); ok {
			rest, ok = strings.CutSuffix(rest, part)
		}
	}
	return ok && rest == ""
}
