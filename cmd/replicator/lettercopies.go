package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"replicator/debezium"
	"replicator/debezium/kafka"
	"replicator/txnsink"
)

// letterCopies writes copies of the records that are set aside to a topic: key and value as they were, and what is known of them in headers
// after their own.
type letterCopies struct{ writer *kafka.Writer }

// letterPrefix begins the names of the headers that a copy has besides the record's own.
const letterPrefix = "replicator."

func (l letterCopies) Copy(ctx context.Context, pipeline string, letters []*txnsink.Letter) error {
	records := make([]debezium.Record, len(letters))
	for i, t := range letters {
		records[i] = debezium.Record{Key: t.Key, Value: t.Value}
		if err := json.Unmarshal([]byte(t.Headers), &records[i].Headers); err != nil {
			return fmt.Errorf("copy record %s[%d] offset %d to errors.dead_letters: its headers: %w", t.Topic, t.Partition, t.Offset, err)
		}
		for _, h := range []struct{ name, value string }{
			{"pipeline", pipeline},
			{"topic", t.Topic},
			{"partition", strconv.Itoa(int(t.Partition))},
			{"offset", strconv.FormatInt(t.Offset, 10)},
			{"table", t.Source},
			{"row", t.RowKey},
			{"class", t.Class},
			{"cause", t.Cause},
		} {
			records[i].Headers = append(records[i].Headers, debezium.Header{Key: letterPrefix + h.name, Value: []byte(h.value)})
		}
	}
	if err := l.writer.Write(ctx, records); err != nil {
		return fmt.Errorf("copy the records that are set aside (errors.dead_letters): %w", err)
	}
	return nil
}
