package main

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"replicator/checkpoint"
	"replicator/schema"
	"replicator/sqlgen"
)

// minimal is a configuration that sets what must be set and nothing else.
const minimal = `pipeline: shop
source:
  brokers: [127.0.0.1:9092]
  topics: ['shop\.shop\..*']
target:
  url: postgres://u:secret@h/db
`

func env(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// TestConfigErrorsNameLineKeyAndRemedy has one line of configuration in each case, after those of minimal.
func TestConfigErrorsNameLineKeyAndRemedy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, want string }{
		{"pipline: x", "c.yaml:7: pipline: there is no such key; did you mean pipeline?"},
		{"brokers: [a:1]", "c.yaml:7: brokers: there is no such key; did you mean source.brokers?"},
		{"log: {lvel: info}", "c.yaml:7: log.lvel: there is no such key; did you mean log.level?"},
		{"checkpoint:\n  rows: 10\n  rwos: 10", "c.yaml:9: checkpoint.rwos: there is no such key; did you mean checkpoint.rows?"},
		{"pipeline: again", "c.yaml:7: pipeline: is here for the second time, the first was in line 1"},
		{"<<: {log: {}}", "c.yaml:7: <<: there is no such key; did you mean log?"},
		{"checkpoint: {rows: many}", `c.yaml:7: checkpoint.rows: "many" must be a whole number of at least 1`},
		{"checkpoint: {rows: 0}", `c.yaml:7: checkpoint.rows: "0" must be a whole number of at least 1`},
		{"checkpoint: {rows: [1]}", "c.yaml:7: checkpoint.rows: must be a single value, not a list"},
		{"checkpoint: {rows: }", "c.yaml:7: checkpoint.rows: has no value; leave the key out for its default, or write '' for the empty text"},
		{"checkpoint: 5", "c.yaml:7: checkpoint: must be keys with values (interval, min_interval, rows, bytes, store, retain), not a single value"},
		{"checkpoint: {interval: 1}", `c.yaml:7: checkpoint.interval: "1" must be a duration of at least 1ms, with a unit: 500ms, 1s, 2m`},
		{"checkpoint: {interval: -1s}", `c.yaml:7: checkpoint.interval: "-1s" must be a duration of at least 1ms, with a unit: 500ms, 1s, 2m`},
		{"checkpoint: {bytes: 64 Mib}", `c.yaml:7: checkpoint.bytes: "64 Mib" must be a size in bytes of at least 1: 64MiB, 1GiB, 500kB, 1048576`},
		{"checkpoint: {bytes: 99999999999GiB}", `c.yaml:7: checkpoint.bytes: "99999999999GiB" must be a size in bytes of at least 1: 64MiB, 1GiB, 500kB, 1048576`},
		{"checkpoint: {store: nowhere}", "c.yaml:7: checkpoint.store: must be target (tables in the target database), file:DIR, or a postgres://, mysql:// or mariadb:// URL"},
		{"checkpoint: {store: 'file:'}", "c.yaml:7: checkpoint.store: file: needs a directory, as in file:/var/lib/replicator"},
		{"checkpoint: {store: 'redis://u:secret@h/d'}", "c.yaml:7: checkpoint.store: must be target (tables in the target database), file:DIR, or a postgres://, mysql:// or mariadb:// URL"},
		{"checkpoint: {store: 'mysql://u:secret@h'}", "c.yaml:7: checkpoint.store: must name the database, as in mysql://user@host:3306/database: the replicator's own tables are in it"},
		{"checkpoint: {store: 'postgres://u:sec%zzret@h/d'}", "c.yaml:7: checkpoint.store: cannot be read as a URL; characters such as @ / # % of a password must be percent-encoded, or come from ${NAME}, which encodes them"},
		{"verify: {source: 'mysql://u:secret@h/?tls=preferred'}", "c.yaml:7: verify.source: tls_configuration: the URL has a tls that there is not; it must be true, false, skip-verify"},
		{"verify: {source: 'postgres://u:secret@h/d?sslmode=prefer'}", "c.yaml:7: verify.source: tls_configuration: has sslmode=prefer, which goes on in plain text where TLS fails; it must be disable, require, verify-ca, verify-full"},
		{"schema: {create: perhaps}", `c.yaml:7: schema.create: "perhaps" must be true or false`},
		{"schema: {types: {nul: keep}}", `c.yaml:7: schema.types.nul: "keep" is none of its values; it must be stop, strip or replace`},
		{"schema: {evolve: never}", `c.yaml:7: schema.evolve: "never" is none of its values; it must be stop, evolve, lenient or ignore`},
		{"delivery: twice", `c.yaml:7: delivery: "twice" is none of its values; it must be two-phase, one-phase, write-ahead, at-least-once or at-most-once`},
		{"workers: 0", `c.yaml:7: workers: "0" must be a whole number from 1 to 64`},
		{"cluster: true\nstandby: true", "c.yaml: standby: cannot be true with cluster: true, in which every process takes over from the others anyway"},
		{"cluster: true\ncheckpoint: {store: 'file:/x'}", "c.yaml: checkpoint.store: cannot be file:DIR with cluster: true: the processes need one store; set it to target, or to a database's URL"},
		{"standby: true\ncheckpoint: {store: 'file:/x'}", "c.yaml: checkpoint.store: cannot be file:DIR with standby: true: the processes need one store; set it to target, or to a database's URL"},
		{"cluster: true\nerrors: {bad_record: dead-letter}", "c.yaml: errors.bad_record: cannot be dead-letter yet with cluster: true; set it to stop"},
		{"membership: {slots: 1025}", `c.yaml:7: membership.slots: "1025" must be a whole number from 1 to 1024`},
		{"membership: {session_timeout: 10ms}", `c.yaml:7: membership.session_timeout: "10ms" must be a duration of at least 1s, with a unit: 500ms, 1s, 2m`},
		{"errors: {bad_record: skip}", `c.yaml:7: errors.bad_record: "skip" is none of its values; it must be stop or dead-letter`},
		{"errors: {bad_record: dead-letter}\ndelivery: write-ahead", `c.yaml: errors.bad_record: cannot be dead-letter with delivery: write-ahead, in which the target refuses a record only after its checkpoint was saved; set it to stop, or delivery to two-phase or one-phase`},
		{"errors: {dead_letters: topic shop.dead}", `c.yaml: errors.dead_letters: names a topic, and errors.bad_record is stop, with which nothing is set aside; set it to dead-letter`},
		{"errors: {dead_letters: shop.dead}", `c.yaml:7: errors.dead_letters: "shop.dead" must be table, or topic and a topic's name, as in topic shop.dead_letters`},
		{"source_transactions: keep", `c.yaml:7: source_transactions: "keep" is none of its values; it must be ignore or preserve`},
		{"source_transactions: preserve\nworkers: 2", "c.yaml: workers: must be 1 with source_transactions: preserve: each worker has a transaction of the target of its own, and these are committed one after the other"},
		{"source_transactions: preserve\nerrors: {bad_record: dead-letter}", "c.yaml: errors.bad_record: must be stop with source_transactions: preserve: a transaction of which a record is set aside is not whole"},
		{"source_transactions: preserve", "c.yaml: source.transactions: is missing: source_transactions: preserve needs the connector's transaction topic (its topic.prefix and .transaction), with provide.transaction.metadata: true on the connector"},
		{"preserve: {broken: skip}", `c.yaml:7: preserve.broken: "skip" is none of its values; it must be stop or split`},
		{"verify: {source: 'oracle://u:secret@h/'}", "c.yaml:7: verify.source: must be a URL of the source database, as in mysql://user:${MYSQL_PASSWORD}@host:3306/, or mariadb:// or postgres://"},
		{"http: {listen: '80'}", `c.yaml:7: http.listen: "80" must be HOST:PORT, as in 127.0.0.1:8088, or '' to turn it off`},
		{"http: {listen: 'a:http'}", `c.yaml:7: http.listen: "a:http" must end in a port from 0 to 65535`},
		{"tables: {match: a}", "c.yaml:7: tables: must be a list of rules, as in [{match: 'shop\\.audit_.*', skip: true}], not keys with values"},
		{"tables: [{skip: true}]", "c.yaml:7: tables[0]: has no match, the regular expression of the tables that it is for"},
		{"tables:\n  - match: a\n  - match: '('", "c.yaml:9: tables[1].match: \"(\" is no regular expression: error parsing regexp: missing closing ): `^(?:()$`"},
		{"tables: [{match: a, key: [x], columns: {exclude: [x]}}]", `c.yaml:7: tables[0].columns.exclude: leaves out "x", which key matches rows by`},
		{"tables: [{match: a, columns: {exclude: [x], rename: {x: y}}}]", `c.yaml:7: tables[0].columns.exclude: leaves out "x", which rename renames`},
		{"tables: [{match: a, columns: {rename: {x: z, y: z}}}]", `c.yaml:7: tables[0].columns.rename: calls both "x" and "y" "z"`},
		{"tables: [{match: a, columns: {rename: [x]}}]", `c.yaml:7: tables[0].columns.rename: must be keys with values, as in {a: b}, not a list`},
		{"tables: [{match: a, columns: {rename: {x: ''}}}]", `c.yaml:7: tables[0].columns.rename.x: "" must be the name of a column`},
		{"tables: [{match: a, target: a.b.c}]", `c.yaml:7: tables[0].target: "a.b.c" must be TABLE or SCHEMA.TABLE, as in {database}.{table}`},
		{"tables: [{match: a, delete: soft}]", "c.yaml:7: tables[0].delete: soft needs soft_delete_column, the target's column that is set: a boolean, or a timestamp of the delete"},
		{"tables: [{match: a, soft_delete_column: x}]", "c.yaml:7: tables[0].soft_delete_column: has no effect without delete: soft"},
		{"tables: [{match: a, truncate: maybe}]", `c.yaml:7: tables[0].truncate: "maybe" is none of its values; it must be apply, ignore or stop`},
		{"log: {format: '${NOTHING}'}", "c.yaml:7: ${NOTHING}: the environment has no variable of that name; set it, or write $${NOTHING} for the text itself"},
		{"log: {format: '${no name}'}", "c.yaml:7: ${no name} is not the name of an environment variable; write $${ for the text ${ itself"},
		{"log:\n  level: ${LEVEL}", `c.yaml:8: log.level: "${LEVEL}" is none of its values; it must be debug, info, warn or error`},
		{"log: {format: ${X}}\nworkers: 1", "c.yaml:7: this is no YAML: did not find expected ',' or '}'"},
		{"- x", "c.yaml:7: this is no YAML: did not find expected key"},
		{"x: 'y", "c.yaml:7: this is no YAML: found unexpected end of stream"},
		{"log: [", "c.yaml:7: this is no YAML: did not find expected node content"},
		{"---\npipeline: other", "c.yaml: more than one YAML document; a pipeline has one file of its own"},
	} {
		_, err := parseConfig("c.yaml", []byte(minimal+c.text), nil, env("LEVEL", "loud"))
		if err == nil {
			t.Errorf("%s: no error, want %s", c.text, c.want)
			continue
		}
		got := strings.Split(err.Error(), "\n")
		if !slices.Contains(got, c.want) {
			t.Errorf("%s\n got %s\nwant %s", c.text, err, c.want)
		}
	}
}

// TestConfigErrorsOfRequiredKeys replaces a line of minimal.
func TestConfigErrorsOfRequiredKeys(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ old, new, want string }{
		{"pipeline: shop\n", "", "c.yaml: pipeline: is missing: it names the checkpoints and the transactions"},
		{"pipeline: shop", "pipeline: 'a:b'", `c.yaml:1: pipeline: "a:b" must be 1 to 64 of the letters A-Z a-z 0-9 _ . - and not begin with a dot: it is a part of the names of transactions`},
		{"brokers: [127.0.0.1:9092]", "brokers: []", "c.yaml:3: source.brokers: needs at least one element"},
		{"brokers: [127.0.0.1:9092]", "brokers: 127.0.0.1:9092", "c.yaml:3: source.brokers: must be a list, as in [a, b], not a single value"},
		{"brokers: [127.0.0.1:9092]", "brokers: [localhost]", `c.yaml:3: source.brokers[0]: "localhost" must be HOST:PORT, as in 127.0.0.1:9092`},
		{"topics: ['shop", "topics: ['[shop", "c.yaml:4: source.topics[0]: \"[shop\\\\.shop\\\\..*\" is no regular expression: error parsing regexp: missing closing ]: `[shop\\.shop\\..*)$`"},
		{"topics:", "start: yesterday\n  topics:", `c.yaml:4: source.start: "yesterday" must be earliest, latest or a time as in 2026-01-31T00:00:00Z`},
		{"topics:", "tls: true\n  topics:", "c.yaml:4: source.tls: must be keys with values (ca, cert, key, server_name, insecure_skip_verify), not a single value"},
		{"topics:", "tls: {cert: c.pem}\n  topics:", "c.yaml:4: source.tls: cert and key go together: the certificate that this client shows, and its private key"},
		{"topics:", "tls: {insecure_skip_verify: true, ca: a.pem}\n  topics:", "c.yaml:4: source.tls: ca and server_name have no effect with insecure_skip_verify: true, which trusts any server"},
		{"topics:", "sasl: {mechanism: PLAIN}\n  topics:", "c.yaml: source.sasl.username: is missing: the user to log in as"},
		{"topics:", "sasl: {username: u, password: secret}\n  topics:", "c.yaml: source.sasl.mechanism: is missing: the way to log in, it must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"},
		{"topics:", "sasl: {mechanism: OAUTHBEARER, token_url: 'http://h/t', client_id: c, client_secret: secret, tls: {}}\n  topics:", "c.yaml: source.sasl.token_url: is missing: source.sasl.tls needs one that begins with https://"},
		{"topics:", "sasl: {client_secret: secret}\n  topics:", "c.yaml: source.sasl.mechanism: is missing: the way to log in, it must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"},
		{"topics:", "sasl: {mechanism: GSSAPI}\n  topics:", `c.yaml:4: source.sasl.mechanism: "GSSAPI" is none of its values; it must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER`},
		{"topics:", "sasl: {mechanism: scram}\n  topics:", `c.yaml:4: source.sasl.mechanism: "scram" is none of its values; it must be PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER`},
		{"topics:", "registry: {url: 'http://r', tls: {}}\n  topics:", "c.yaml: source.registry.url: is missing: source.registry.tls needs one that begins with https://"},
		{"topics:", "format: protobuf\n  topics:", "c.yaml: source.registry.url: is missing: source.format: protobuf needs the registry that the connector uses"},
		{"topics:", "format: avro\n  topics:", "c.yaml: source.registry.url: is missing: source.format: avro needs the registry that the connector uses"},
		{"topics:", "deduplicate: perhaps\n  topics:", `c.yaml:4: source.deduplicate: "perhaps" must be true or false`},
		{"topics:", "registry: {url: 'u:secret@r'}\n  topics:", "c.yaml:4: source.registry.url: must be http://HOST:PORT or https://HOST:PORT, with a path if the registry has one, as in http://127.0.0.1:8080/apis/ccompat/v7"},
		{"topics:", "registry: {ids: subject}\n  topics:", `c.yaml:4: source.registry.ids: "subject" is none of its values; it must be auto, global or content`},
		{"  url: postgres://u:secret@h/db\n", "", "c.yaml: target.url: is missing: the database to write to, as in postgres://user:${PGPASSWORD}@host:5432/db"},
		{"postgres://u:secret@h/db", "oracle://u:secret@h/db", `c.yaml:6: target.url: "oracle" is none of its schemes; it must be a postgres://, mysql://, mariadb:// or kafka:// URL`},
		{"postgres://u:secret@h/db", "kafka://u:secret@h:9092/changes", "c.yaml: checkpoint.store: is missing: Kafka keeps no checkpoints: set it to file:DIR, or to a postgres://, mysql:// or mariadb:// URL"},
		{"postgres://u:secret@h/db", "kafka://u:secret@127.0.0.1/shop.shop.x\ncheckpoint: {store: 'file:d'}", "c.yaml: source.topics: fits shop.shop.x, which is the target's: " +
			"the pipeline would read what it writes; make the expressions narrower, or give the target's topic another name"},
		{"postgres://u:secret@h/db", "kafka://u:secret@h:9092", "c.yaml:6: target.url: must end in the name of a topic, of at most 238 of the letters A-Z a-z 0-9 . _ -, as in kafka://host:9092/changes"},
		{"postgres://u:secret@h/db", "kafka://u:secret@h/changes\nerrors: {bad_record: dead-letter}", "c.yaml: errors.bad_record: cannot be dead-letter where the target is Kafka; set it to stop"},
		{"postgres://u:secret@h/db", "kafka://u:secret@h/changes\n  format: xml", `c.yaml:7: target.format: "xml" is none of its values; it must be json or sql`},
		{"postgres://u:secret@h/db", "mysql://u:secret@h/db?tls=skip-verify", "c.yaml:6: target.url: has parameters after the database's name, and takes none: TLS is set by target.tls"},
		{"postgres://u:secret@h/db", "postgres://u:secret@h/db\n  tls: {}", "c.yaml:7: target.tls: is for mysql://, mariadb:// and kafka://; a postgres:// URL takes sslmode and sslrootcert"},
		{"postgres://u:secret@h/db", "postgres://u:sec%zzret@h/db", "c.yaml:6: target.url: cannot be read as a URL; characters such as @ / # % of a password must be percent-encoded, or come from ${NAME}, which encodes them"},
		{"postgres://u:secret@h/db", "postgres://u:s@cr/t@h/db", "c.yaml:6: target.url: has an @ behind its host; characters such as @ / # % of a password must be percent-encoded, or come from ${NAME}, which encodes them"},
		{"postgres://u:secret@h/db", "mysql://u:s@cr/t@h/db", "c.yaml:6: target.url: has an @ behind its host; characters such as @ / # % of a password must be percent-encoded, or come from ${NAME} in the configuration"},
		{"  url:", "  table: '{tabel}'\n  url:", `c.yaml:6: target.table: "{tabel}" may have {topic}, {database}, {schema} and {table} in braces, and no other braces`},
		{"  url:", "  table: a.b.c\n  url:", `c.yaml:6: target.table: "a.b.c" must be TABLE or SCHEMA.TABLE, as in {database}.{table}`},
	} {
		_, err := parseConfig("c.yaml", []byte(strings.Replace(minimal, c.old, c.new, 1)), nil, env())
		if err == nil {
			t.Errorf("%s: no error, want %s", c.new, c.want)
			continue
		}
		if got := strings.Split(err.Error(), "\n"); !slices.Contains(got, c.want) {
			t.Errorf("%s\n got %s\nwant %s", c.new, err, c.want)
		}
		if strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "zzret") {
			t.Errorf("%s: the error shows the password: %s", c.new, err)
		}
	}
}

func TestConfigReportsEveryError(t *testing.T) {
	t.Parallel()
	_, err := parseConfig("c.yaml", []byte("log: {level: loud}\nworkers: x\n"), nil, env())
	want := `c.yaml:1: log.level: "loud" is none of its values; it must be debug, info, warn or error
c.yaml:2: workers: "x" must be a whole number from 1 to 64
c.yaml: pipeline: is missing: it names the checkpoints and the transactions
c.yaml: source.brokers: is missing: Kafka's addresses, as in [127.0.0.1:9092]
c.yaml: source.topics: is missing: the topics of the tables, as in ['shop\.shop\..*']
c.yaml: target.url: is missing: the database to write to, as in postgres://user:${PGPASSWORD}@host:5432/db`
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

func minimalConfig() config {
	c := defaults()
	c.Pipeline = "shop"
	c.Source.Brokers, c.Source.Topics = []string{"127.0.0.1:9092"}, []string{`shop\.shop\..*`}
	c.Target.URL = "postgres://u:secret@h/db"
	return c
}

func TestConfigValues(t *testing.T) {
	t.Parallel()
	text := minimal + `
tables:
  - {match: 'shop\.audit_.*', skip: true}
  - {match: 'shop\.log', key: [a, b]}
  - {match: 'shop\.c', target: 'crm.{table}', columns: {exclude: [note], rename: {name: full_name}}, delete: soft, soft_delete_column: gone, truncate: stop}
delivery: at-least-once
checkpoint: {interval: 250ms, min_interval: 0s, rows: "${ROWS}", bytes: 64MiB, store: 'file:/var/lib/r', retain: 3}
schema: {create: false, indexes: false, types: {boolean: boolean, time: time, json: json, nul: strip}}
http: {listen: '', token: sesame}
log: {level: debug, format: json}
`
	got, err := parseConfig("c.yaml", []byte(text), nil, env("ROWS", "7"))
	if err != nil {
		t.Fatal(err)
	}
	got.Settings = nil // see TestSettingsShowNoSecret
	want := minimalConfig()
	want.Tables = []tableRule{
		{Match: regexp.MustCompile(`^(?:shop\.audit_.*)$`), Skip: true},
		{Match: regexp.MustCompile(`^(?:shop\.log)$`), Rows: sqlgen.Rules{Key: []string{"a", "b"}}},
		{Match: regexp.MustCompile(`^(?:shop\.c)$`), Target: "crm.{table}", Rows: sqlgen.Rules{
			Exclude: []string{"note"}, Rename: map[string]string{"name": "full_name"},
			Delete: sqlgen.DeleteSoft, Soft: "gone", Truncate: sqlgen.TruncateStop,
		}},
	}
	want.Delivery = checkpoint.AtLeastOnce
	want.Checkpoint = checkpointConfig{Interval: 250 * time.Millisecond, Rows: 7, Bytes: 64 << 20, Store: "file:/var/lib/r", Retain: 3}
	want.Schema = schemaConfig{Evolve: schema.Evolve, Types: sqlgen.Options{Boolean: "boolean", Time: "time", JSON: "json", Enum: "text", Nul: "strip"}}
	want.HTTP = httpConfig{Token: "sesame"}
	want.Log = logConfig{Level: "debug", Format: "json"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestSetGoesOverTheFile(t *testing.T) {
	t.Parallel()
	got, err := parseConfig("c.yaml", []byte(minimal+"checkpoint: {rows: 5}\nhttp:\n"), []string{
		"checkpoint.rows=6", "checkpoint.retain=2", "http.listen=", "target.table={database}_{table}",
		`source.topics=['a\..*', b]`, "tables=[{match: x, skip: true}]", "log.level=${LEVEL}",
	}, env("LEVEL", "warn"))
	if err != nil {
		t.Fatal(err)
	}
	want := minimalConfig()
	want.Checkpoint.Rows, want.Checkpoint.Retain = 6, 2
	want.HTTP.Listen, want.Target.Table = "", "{database}_{table}"
	want.Source.Topics = []string{`a\..*`, "b"}
	want.Tables = []tableRule{{Match: regexp.MustCompile("^(?:x)$"), Skip: true}}
	want.Log.Level = "warn"
	want.Settings = got.Settings // see TestSettingsShowNoSecret
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestSetErrorsNameTheFlag(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]string{
		"checkpoint.rows":                "--set checkpoint.rows: must be KEY.PATH=VALUE, as in --set checkpoint.rows=1000",
		"checkpoint.rwos=1":              "--set checkpoint.rwos: checkpoint.rwos: there is no such key; did you mean checkpoint.rows?",
		"checkpoint.rows=x":              `--set checkpoint.rows: checkpoint.rows: "x" must be a whole number of at least 1`,
		"pipeline.name=x":                "--set pipeline.name: pipeline holds no keys that could be set one by one; set it whole, as in --set tables='[{match: a, skip: true}]'",
		"source.topics=[":                "--set source.topics: the value must be YAML, as in ['a', 'b']",
		"source.unavailable_value=hex:1": `--set source.unavailable_value: source.unavailable_value: "hex:1" must have an even number of hexadecimal digits after its hex: prefix`,
		"source.unavailable_value=":      `--set source.unavailable_value: source.unavailable_value: "" must not be empty: an empty text would never be a value`,
		"source.flattened.field_prefix=": `--set source.flattened.field_prefix: source.flattened.field_prefix: "" must not be empty: without a prefix metadata cannot be told from columns`,
		"source.topics=a":                "--set source.topics: source.topics: must be a list, as in [a, b], not a single value",
		"target.url=mysql://u:p@h":       "--set target.url: target.url: must name the database, as in mysql://user@host:3306/database: the replicator's own tables are in it",
	} {
		_, err := parseConfig("c.yaml", []byte(minimal), []string{flag}, env())
		if err == nil || err.Error() != want {
			t.Errorf("--set %s\n got %v\nwant %s", flag, err, want)
		}
	}
}

func TestEnvironmentIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	const password = `p@s:s/w#r%d {a: b} '"`
	text := strings.NewReplacer("u:secret@h", "${USER}:${PASSWORD}@h", "pipeline: shop", "pipeline: ${NAME}-x").Replace(minimal) +
		"checkpoint:\n  store: file:/tmp/$${NAME}/${PASSWORD}\n"
	got, err := parseConfig("c.yaml", []byte(text), nil, env("USER", "me", "PASSWORD", password, "NAME", "shop"))
	if err != nil {
		t.Fatal(err)
	}
	want := minimalConfig()
	want.Pipeline = "shop-x"
	want.Target.URL = "postgres://me:p%40s%3As%2Fw%23r%25d%20%7Ba%3A%20b%7D%20%27%22@h/db"
	want.Checkpoint.Store = "file:/tmp/${NAME}/" + password
	want.Settings = got.Settings // see TestSettingsShowNoSecret
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

// example is the file that shows every key.
var example = filepath.Join("..", "..", "config.example.yaml")

func TestExampleHoldsTheDefaults(t *testing.T) {
	t.Parallel()
	got, err := loadConfig(example, nil, env("PGPASSWORD", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Settings = got.Settings // see TestSettingsShowNoSecret
	want.Pipeline, want.Source.Brokers, want.Source.Topics, want.Target.URL = got.Pipeline, got.Source.Brokers, got.Source.Topics, got.Target.URL
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestExampleHasEveryKeyWithALineOnIt(t *testing.T) {
	t.Parallel()
	b, err := os.ReadFile(example)
	if err != nil {
		t.Fatal(err)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil {
		t.Fatal(err)
	}
	var c config
	keys := section(configKeys(&c))
	for _, p := range keys.paths("") {
		n := doc.Content[0]
		for name := range strings.SplitSeq(p, ".") {
			n = member(n, name)
		}
		if n == nil {
			t.Errorf("%s has no key %s", example, p)
		}
	}
	shown := examples(t, string(b))
	var rule tableRule
	for _, p := range ruleKeys(&rule).paths("") {
		if !shown["tables."+p] {
			t.Errorf("%s shows no key %s of a rule", example, p)
		}
	}
	for _, name := range tlsKeys(new(tlsConfig)).names() {
		if !shown["tls."+name] {
			t.Errorf("%s shows no key %s of a tls section", example, name)
		}
	}
	for i, line := range strings.Split(string(b), "\n") {
		if trimmed := strings.TrimSpace(line); trimmed != "" && trimmed[0] != '#' && !strings.HasSuffix(trimmed, ":") && !strings.Contains(line, " # ") {
			t.Errorf("%s:%d: no word on %s", example, i+1, trimmed)
		}
	}
}

// examples returns the paths of the keys in the lines that begin with #>.
func examples(t *testing.T, text string) map[string]bool {
	t.Helper()
	shown := map[string]bool{}
	var rule strings.Builder
	for line := range strings.Lines(text) {
		indent, code, ok := strings.Cut(line, "#> ")
		switch {
		case !ok:
		case indent == "":
			rule.WriteString(code)
		default:
			show(t, shown, "", code)
		}
	}
	show(t, shown, "tables", rule.String())
	return shown
}

func show(t *testing.T, shown map[string]bool, path, text string) {
	t.Helper()
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var walk func(n *yaml.Node, path string)
	walk = func(n *yaml.Node, path string) {
		shown[path] = true
		for i := 0; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
			walk(n.Content[i+1], join(path, n.Content[i].Value))
		}
		if n.Kind == yaml.SequenceNode && len(n.Content) == 1 {
			walk(n.Content[0], path)
		}
	}
	walk(doc.Content[0], path)
}
