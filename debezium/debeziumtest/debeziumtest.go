// Package debeziumtest reads recorded Kafka records back: topics that a real Debezium wrote, as this repository keeps
// them under testdata/debezium. Tests of several packages and the demo replay them.
//
// A folder is one connector, a file of it one topic, called <topic>.jsonl. A line is one record:
//
//	{"partition": 0, "offset": 7, "timestamp": 1796008035910, "headers": {"name": "value"}, "key": "...", "value": "..."}
//
// Keys and values are text, or base64 in key_base64 and value_base64; null and a missing member are Kafka's null.
// Header values are bytes, each written as the character of the same number (Latin-1).
package debeziumtest

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"replicator/debezium"
)

// maxLine bounds a line of a recorded file.
const maxLine = 64 << 20

// Load returns the records of every topic in the folder dir, by topic, each partition in offset order.
func Load(dir string) (map[string][]debezium.Record, error) {
	return LoadFS(os.DirFS(filepath.Dir(dir)), filepath.Base(dir))
}

// LoadFS is Load for a folder of a file system, such as an embedded one.
func LoadFS(fsys fs.FS, dir string) (map[string][]debezium.Record, error) {
	names, err := fs.Glob(fsys, path.Join(dir, "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("recorded topics in %s: %w", dir, err)
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("recorded topics in %s: the folder holds no .jsonl file", dir)
	}
	topics := make(map[string][]debezium.Record, len(names))
	for _, name := range names {
		topic := strings.TrimSuffix(path.Base(name), ".jsonl")
		if topics[topic], err = loadFile(fsys, name, topic); err != nil {
			return nil, err
		}
	}
	return topics, nil
}

// Replay returns the records of every topic in the folder dir in one sequence that a connector could have written:
// first what its snapshot wrote to the schema-change topic (the topic that is called like the folder), then all others
// by time, each partition in offset order.
func Replay(dir string) ([]debezium.Record, error) {
	return ReplayFS(os.DirFS(filepath.Dir(dir)), filepath.Base(dir))
}

// ReplayFS is Replay for a folder of a file system, such as an embedded one.
func ReplayFS(fsys fs.FS, dir string) ([]debezium.Record, error) {
	topics, err := LoadFS(fsys, dir)
	if err != nil {
		return nil, err
	}
	var first, rest []debezium.Record
	for topic, records := range topics {
		for _, r := range records {
			if topic == path.Base(dir) && bytes.Contains(r.Value, []byte(`"snapshot":"true"`)) {
				first = append(first, r)
			} else {
				rest = append(rest, r)
			}
		}
	}
	slices.SortFunc(first, inPartition)
	return append(first, byTime(rest)...), nil
}

// byTime merges partitions by time. A record that is older than one before it in its partition stays behind that one.
func byTime(records []debezium.Record) []debezium.Record {
	slices.SortFunc(records, inPartition)
	type timed struct {
		at     time.Time
		record debezium.Record
	}
	sequence := make([]timed, len(records))
	for i, r := range records {
		sequence[i] = timed{r.Time, r}
		if i > 0 && records[i-1].Partition == r.Partition && sequence[i-1].at.After(r.Time) {
			sequence[i].at = sequence[i-1].at
		}
	}
	slices.SortStableFunc(sequence, func(a, b timed) int { return a.at.Compare(b.at) })
	for i := range sequence {
		records[i] = sequence[i].record
	}
	return records
}

func inPartition(a, b debezium.Record) int {
	return cmp.Or(cmp.Compare(a.Partition.Topic, b.Partition.Topic), cmp.Compare(a.Partition.ID, b.Partition.ID), cmp.Compare(a.Offset, b.Offset))
}

func loadFile(fsys fs.FS, name, topic string) (records []debezium.Record, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("recorded topic: %w", err)
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = fmt.Errorf("recorded topic %s: %w", name, e)
		}
	}()
	if records, err = read(f, topic); err != nil {
		return nil, fmt.Errorf("recorded topic %s: %w", name, err)
	}
	slices.SortFunc(records, inPartition)
	return records, nil
}

// line is one recorded record.
type line struct {
	Partition   int32   `json:"partition"`
	Offset      int64   `json:"offset"`
	Timestamp   int64   `json:"timestamp"` // milliseconds since the epoch
	Headers     headers `json:"headers"`
	Key         *string `json:"key"`
	Value       *string `json:"value"`
	KeyBase64   []byte  `json:"key_base64"`
	ValueBase64 []byte  `json:"value_base64"`
}

func read(r io.Reader, topic string) ([]debezium.Record, error) {
	var records []debezium.Record
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(records)+1, err)
		}
		records = append(records, debezium.Record{
			Partition: debezium.Partition{Topic: topic, ID: l.Partition},
			Offset:    l.Offset,
			Time:      time.UnixMilli(l.Timestamp).UTC(),
			Key:       either(l.Key, l.KeyBase64),
			Value:     either(l.Value, l.ValueBase64),
			Headers:   l.Headers,
		})
	}
	return records, lines.Err()
}

func either(text *string, raw []byte) []byte {
	if text != nil {
		return append([]byte{}, *text...)
	}
	return raw
}

// headers keeps the order of the recorded object.
type headers []debezium.Header

// UnmarshalJSON reads an object of strings.
func (h *headers) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	open, err := d.Token()
	if err != nil || open == nil {
		return err
	}
	for d.More() {
		var key, value any
		if key, err = d.Token(); err != nil {
			return err
		}
		if value, err = d.Token(); err != nil {
			return err
		}
		name, ok := key.(string)
		text, isText := value.(string)
		if !ok || !isText {
			return fmt.Errorf("header %v: want a string, not %v", key, value)
		}
		raw := make([]byte, 0, len(text))
		for _, r := range text {
			if r > 0xff {
				return fmt.Errorf("header %s: the character %q stands for no byte", name, r)
			}
			raw = append(raw, byte(r))
		}
		*h = append(*h, debezium.Header{Key: name, Value: raw})
	}
	return nil
}
