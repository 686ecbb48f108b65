package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"replicator/debezium"
)

const (
	plainRow = `{"id":1,"v":"x"}`
	plainKey = `{"id":1}`
)

// preflights are pipelines with one thing that will go wrong each, and what check must find: nothing less and nothing more.
var preflights = map[string]struct {
	make func(t *testing.T, r *checked)
	want string
}{
	"nothing": {func(t *testing.T, r *checked) { r.good(t) }, ""},
	"nothing after a run": {func(t *testing.T, r *checked) {
		r.good(t)
		r.runs(t)
	}, ""},

	"certificate": {func(t *testing.T, r *checked) {
		r.good(t)
		r.set = []string{"source.tls={ca: nowhere.pem}"}
	}, "brokers/settings"},
	"no topic": {func(t *testing.T, r *checked) { r.describe(t) }, "topics/none"},
	"transactions": {func(t *testing.T, r *checked) {
		r.good(t)
		r.set = []string{"source.transactions=nowhere"}
	}, "transactions/missing"},
	"no topic for letters": {func(t *testing.T, r *checked) {
		r.good(t)
		r.set = []string{"errors={bad_record: dead-letter, dead_letters: topic nowhere}"}
	}, "dead_letters/missing"},
	"no schema changes": {func(t *testing.T, r *checked) {
		r.good(t)
		r.set = []string{"source.schema_changes="}
	}, "connector/schemaless schema_changes/unset types/none"},
	"other schema changes": {func(t *testing.T, r *checked) {
		r.good(t)
		r.set = []string{"source.schema_changes=nowhere"}
	}, "schema_changes/missing types/none"},
	"no description": {func(t *testing.T, r *checked) {
		r.history(t, "retention.ms", "-1")
		r.createTopic(t, r.rows(), 1)
		r.send(t, 0, plainKey, "r", "null", plainRow)
	}, "schema_changes/empty types/none"},
	"not schema changes": {func(t *testing.T, r *checked) {
		r.good(t)
		r.write(t, r.prefix, "[]")
	}, "schema_changes/not_debezium types/none"},
	"partitioned schema changes": {func(t *testing.T, r *checked) {
		r.good(t)
		r.createTopic(t, r.prefix+"-2", 2, "retention.ms", "-1")
		r.set = []string{"source.schema_changes=" + r.prefix + "-2"}
	}, "schema_changes/unreadable types/none"},
	"forgotten schema changes": {func(t *testing.T, r *checked) {
		r.history(t)
		r.good(t)
	}, "schema_changes/retention"},
	"compacted schema changes": {func(t *testing.T, r *checked) {
		r.history(t, "cleanup.policy", "compact")
		r.good(t)
	}, "schema_changes/compacted"},
	"registry": {func(t *testing.T, r *checked) {
		r.good(t)
		r.set = []string{"source.registry.url=http://127.0.0.1:1"}
	}, "registry/unreachable"},
	"record": {func(t *testing.T, r *checked) {
		r.good(t)
		r.write(t, r.rows(), "{")
	}, "records/undecoded"},
	"record to set aside": {func(t *testing.T, r *checked) {
		r.good(t)
		r.write(t, r.rows(), "{")
		r.set = []string{"errors.bad_record=dead-letter"}
	}, "records/undecoded"},

	"retention": {func(t *testing.T, r *checked) {
		r.createTopic(t, r.rows(), 1, "retention.ms", "3600000", "retention.bytes", "1000000000")
		r.describe(t)
		r.send(t, 0, plainKey, "r", "null", plainRow)
	}, "retention/short retention/size"},
	"old checkpoint": {func(t *testing.T, r *checked) {
		r.good(t)
		r.runs(t)
		r.send(t, 0, plainKey, "u", plainRow, plainRow)
		r.exec(t, `UPDATE replicator.checkpoints SET document = regexp_replace(document::text, '"created": ?"2[0-9]{3}', '"created":"2001')::json`)
	}, "retention/soon"},
	"lost": {func(t *testing.T, r *checked) {
		r.good(t)
		r.runs(t)
		r.send(t, 0, plainKey, "u", plainRow, plainRow)
		r.send(t, 0, plainKey, "u", plainRow, plainRow)
		if err := r.broker.DeleteRecords(r.rows(), 0, 2); err != nil {
			t.Fatal(err)
		}
	}, "positions/lost"},
	"recreated": {func(t *testing.T, r *checked) {
		r.good(t)
		r.runs(t)
		if err := r.broker.DeleteTopic(r.rows()); err != nil {
			t.Fatal(err)
		}
		r.createTopic(t, r.rows(), 1)
	}, "positions/recreated"},
	"deleted": {func(t *testing.T, r *checked) {
		r.good(t)
		r.runs(t)
		if err := r.broker.DeleteTopic(r.rows()); err != nil {
			t.Fatal(err)
		}
		r.createTopic(t, r.prefix+".shop.u", 1)
	}, "positions/deleted"},
	"no snapshot": {func(t *testing.T, r *checked) {
		r.table(t)
		r.send(t, 0, plainKey, "u", plainRow, plainRow)
	}, "start/partial"},

	"compacted without a key": {func(t *testing.T, r *checked) {
		r.createTopic(t, r.rows(), 1, "cleanup.policy", "compact")
		r.keyless(t)
		r.send(t, 0, plainKey, "r", "null", plainRow)
	}, "compaction/keyless keys/none"},
	"partitions without keys": {func(t *testing.T, r *checked) {
		r.createTopic(t, r.rows(), 2)
		r.keyless(t)
		r.send(t, 0, "", "r", "null", plainRow)
	}, "keys/none partitions/keyless"},
	"partitions by another column": {func(t *testing.T, r *checked) {
		r.createTopic(t, r.rows(), 2)
		r.describe(t)
		r.send(t, 0, `{"v":"x"}`, "r", "null", plainRow)
	}, "partitions/key"},
	"moved key": {func(t *testing.T, r *checked) {
		r.createTopic(t, r.rows(), 2)
		r.describe(t)
		r.send(t, 0, plainKey, "r", "null", plainRow)
		r.send(t, 1, plainKey, "r", "null", plainRow)
	}, "partitions/moved"},
	"large": {func(t *testing.T, r *checked) {
		r.createTopic(t, r.rows(), 1, "max.message.bytes", "2000")
		r.describe(t)
		r.send(t, 0, plainKey, "r", "null", `{"id":1,"v":"`+strings.Repeat("x", 1500)+`"}`)
	}, "messages/large"},

	"flattened": {func(t *testing.T, r *checked) {
		r.table(t)
		value := fmt.Sprintf(`{"id":1,"v":"x","__deleted":"false","__op":"r","__db":"shop","__table":"t","__source_ts_ms":1,"__name":%q}`, r.prefix)
		if err := r.broker.Produce(t.Context(), debezium.Record{Partition: debezium.Partition{Topic: r.rows()}, Key: []byte(plainKey), Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
	}, "connector/flattened"},
	"no transactions": {func(t *testing.T, r *checked) {
		r.good(t)
		r.send(t, 0, plainKey, "u", plainRow, plainRow)
		r.preserve(t)
	}, "transactions/unnamed"},
	"flattened, without transactions": {func(t *testing.T, r *checked) {
		r.table(t)
		value := fmt.Sprintf(`{"id":1,"v":"x","__deleted":"false","__op":"c","__db":"shop","__table":"t","__source_ts_ms":1,"__name":%q}`, r.prefix)
		if err := r.broker.Produce(t.Context(), debezium.Record{Partition: debezium.Partition{Topic: r.rows()}, Key: []byte(plainKey), Value: []byte(value)}); err != nil {
			t.Fatal(err)
		}
		r.preserve(t)
	}, "connector/flattened transactions/unnamed"},
	"no position": {func(t *testing.T, r *checked) {
		r.table(t)
		r.send(t, 0, plainKey, "r", "null", plainRow, `"file":"binlog.000001",`, "")
	}, "connector/position"},
	"no former values": {func(t *testing.T, r *checked) {
		r.createTopic(t, r.rows(), 1)
		r.keyless(t)
		r.send(t, 0, "", "r", "null", plainRow)
		r.send(t, 0, "", "u", "null", plainRow)
	}, "connector/before keys/none"},
	"columns": {func(t *testing.T, r *checked) {
		r.table(t, "id", "INT", "v", "VARCHAR", "w", "VARCHAR")
		r.send(t, 0, plainKey, "r", "null", plainRow)
	}, "connector/columns"},
	"decimals": {func(t *testing.T, r *checked) {
		r.table(t, "id", "INT", "v", "DECIMAL")
		r.typed(t, `{"field":"id","type":"int32","optional":false},{"field":"v","type":"double","optional":true}`, `{"id":1,"v":1.5}`)
	}, "connector/decimal"},
	"times": {func(t *testing.T, r *checked) {
		r.createTopic(t, r.rows(), 1)
		r.history(t, "retention.ms", "-1")
		r.write(t, r.prefix, fmt.Sprintf(`{%s,"databaseName":"shop","ddl":"CREATE TABLE t","tableChanges":[{"type":"CREATE","id":"\"shop\".\"t\"","table":{"primaryKeyColumnNames":["id"],"columns":[
			{"name":"id","typeName":"INT","typeExpression":"INT","position":1,"optional":false},{"name":"v","typeName":"DATETIME","typeExpression":"DATETIME","length":6,"position":2,"optional":true}]}}]}`, r.source("t")))
		r.typed(t, `{"field":"id","type":"int32","optional":false},{"field":"v","type":"int64","optional":true,"name":"org.apache.kafka.connect.data.Timestamp","version":1}`, `{"id":1,"v":1}`)
	}, "connector/time"},
	"future": {func(t *testing.T, r *checked) {
		r.table(t)
		r.send(t, 0, plainKey, "r", "null", plainRow, `"ts_ms":1704067200500`, fmt.Sprintf(`"ts_ms":%d`, time.Now().Add(time.Hour).UnixMilli()))
	}, "clocks/future"},

	"two columns of one name": {func(t *testing.T, r *checked) {
		r.good(t, "id", "INT", "v", "VARCHAR", "w", "VARCHAR")
		r.set = []string{`tables=[{match: '.*', columns: {rename: {v: w}}}]`}
	}, "connector/columns rules/contradiction"},
	"long names": {func(t *testing.T, r *checked) {
		r.good(t)
		r.set = []string{"target.table=" + strings.Repeat("x", 70)}
	}, "names/long"},
	"taken names": {func(t *testing.T, r *checked) {
		r.good(t)
		r.ddl(t, "CREATE TABLE u", "u", "id", "INT")
		r.set = []string{"target.table=same"}
	}, "names/taken"},
	"types": {func(t *testing.T, r *checked) { r.good(t, "id", "INT", "v", "BFILE") }, "types/none"},
	"two-phase": {func(t *testing.T, r *checked) {
		r.good(t)
		r.set = []string{"workers=20"}
	}, "two-phase/few"},
	"no sslmode": {func(t *testing.T, r *checked) {
		r.good(t)
		r.target = withTLS(t, r.url, "", "")
	}, "tls/off"},

	"own tables": {func(t *testing.T, r *checked) {
		r.good(t)
		r.runs(t)
		r.asRole(t, "GRANT SET ON PARAMETER session_replication_role TO ROLE; ALTER TABLE t OWNER TO ROLE")
	}, "own tables/grants"},
	"no schema": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, "ALTER DATABASE current SET search_path = nowhere")
	}, "schemas/none"},
	"triggers": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, triggered+"ALTER TABLE t ENABLE ALWAYS TRIGGER note")
	}, "triggers/always"},
	"triggers that fire": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, triggered)
		r.asRole(t, "ALTER TABLE t OWNER TO ROLE")
	}, "triggers/fire"},
	"foreign keys": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, "CREATE TABLE t (id int PRIMARY KEY, v varchar(40)); CREATE TABLE other (id int REFERENCES t)")
		r.asRole(t, "ALTER TABLE t OWNER TO ROLE")
	}, "foreign keys/checked"},
	"encoding": {func(t *testing.T, r *checked) {
		r.good(t)
		name := strings.ReplaceAll(r.prefix, "-", "_") + "_l1"
		r.exec(t, "CREATE DATABASE "+name+" ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
		r.target = world.server.URL(name)
	}, "settings/encoding"},
	"clock": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, `CREATE SCHEMA ahead; CREATE FUNCTION ahead.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT pg_catalog.clock_timestamp() + interval '1 minute' $$;
			ALTER DATABASE current SET search_path = ahead, pg_catalog`)
	}, "clocks/target"},
	"connections": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, "ALTER DATABASE current CONNECTION LIMIT 8")
	}, "connections/few"},
	"grants": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, plainTable)
		r.asRole(t, "GRANT SELECT, INSERT ON t TO ROLE; GRANT SET ON PARAMETER session_replication_role TO ROLE")
	}, "grants/missing grants/owner"},
	"row security": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, plainTable+"; ALTER TABLE t ENABLE ROW LEVEL SECURITY; ALTER TABLE t FORCE ROW LEVEL SECURITY")
		r.asRole(t, "ALTER TABLE t OWNER TO ROLE; GRANT SET ON PARAMETER session_replication_role TO ROLE")
	}, "grants/row_security"},

	"missing": {func(t *testing.T, r *checked) {
		r.good(t)
		r.set = []string{"schema.create=false"}
	}, "tables/missing"},
	"view": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, "CREATE VIEW t AS SELECT 1 AS id, ''::text AS v")
	}, "tables/unusable"},
	"unlogged": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, strings.Replace(plainTable, "CREATE", "CREATE UNLOGGED", 1))
	}, "tables/unlogged"},
	"required": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, plainTable+"; ALTER TABLE t ADD w int NOT NULL")
	}, "tables/required"},
	"not null": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, plainTable+"; ALTER TABLE t ALTER v SET NOT NULL")
	}, "tables/not_null"},
	"lacking": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, "CREATE TABLE t (id int PRIMARY KEY)")
		r.set = []string{"schema.evolve=stop"}
	}, "tables/columns"},
	"another key": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, "CREATE TABLE t (id int, v varchar(40) PRIMARY KEY)")
	}, "keys/differ tables/not_null unique/extra"},
	"unique": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, plainTable+"; CREATE UNIQUE INDEX ON t (v)")
	}, "unique/extra"},
	"narrow": {func(t *testing.T, r *checked) {
		r.good(t)
		r.exec(t, "CREATE TABLE t (id smallint PRIMARY KEY, v varchar(40))")
	}, "types/narrow"},
	"zones": {func(t *testing.T, r *checked) {
		r.table(t, "id", "INT", "v", "TIMESTAMP")
		r.send(t, 0, plainKey, "r", "null", `{"id":1,"v":"2024-01-01T00:00:00Z"}`)
		r.exec(t, "CREATE TABLE t (id int PRIMARY KEY, v timestamp)")
	}, "time zone/differs"},

	"store that is not there": {func(t *testing.T, r *checked) {
		r.good(t)
		r.set = []string{"checkpoint.store=postgres://127.0.0.1:1/d?sslmode=disable"}
	}, "store/unreachable"},
	"store without tables": {func(t *testing.T, r *checked) {
		r.good(t)
		r.set = []string{"checkpoint.store=" + caseDatabase(t, strings.ReplaceAll(r.prefix, "-", "_")+"_store")}
	}, "store/unread"},
}

const (
	plainTable = "CREATE TABLE t (id int PRIMARY KEY, v varchar(40))"
	triggered  = plainTable + `; CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN new; END $$;
		CREATE TRIGGER note AFTER INSERT ON t FOR EACH ROW EXECUTE FUNCTION note();`
)
