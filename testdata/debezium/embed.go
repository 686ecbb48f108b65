// Package recorded holds the part of the recorded streams that the demo replays: what a real Debezium connector wrote for
// every table of a MySQL database, and the rows that the source itself held afterwards.
package recorded

import "embed"

// Files has the folders plain (topics, see debezium/debeziumtest) and source/mysql-02 (one file a table, one line a row:
// its columns as MySQL's client prints them, binary as 0x and hex digits).
//
//go:embed plain/plain.jsonl plain/plain.shop.*.jsonl source/mysql-02/*.jsonl
var Files embed.FS
