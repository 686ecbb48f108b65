package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"replicator/checkpoint"
	"replicator/debezium/registry"
	"replicator/schema"
	"replicator/sqlgen"
	kafkasink "replicator/txnsink/kafka"
	"replicator/txnsink/mysql"
	"replicator/txnsink/postgres"
	verifymysql "replicator/verify/mysql"
)

// configKeys is every key of the configuration file, in the order of config.example.yaml, and where its value goes.
func configKeys(c *config) []key {
	return []key{
		{name: "pipeline", value: word(&c.Pipeline, pipelineName), required: "it names the checkpoints and the transactions"},
		{name: "source", value: sourceKeys(&c.Source)},
		{name: "target", value: targetKeys(&c.Target)},
		{name: "tables", value: rules{&c.Tables}},
		{name: "delivery", value: oneOf(&c.Delivery,
			[]checkpoint.Delivery{checkpoint.TwoPhase, checkpoint.OnePhase, checkpoint.WriteAhead, checkpoint.AtLeastOnce, checkpoint.AtMostOnce})},
		{name: "checkpoint", value: section{
			{name: "interval", value: duration(&c.Checkpoint.Interval, time.Millisecond)},
			{name: "min_interval", value: duration(&c.Checkpoint.MinInterval, 0)},
			{name: "rows", value: integer(&c.Checkpoint.Rows, 1)},
			{name: "bytes", value: size(&c.Checkpoint.Bytes)},
			{name: "store", value: secret(checkpointStore(&c.Checkpoint.Store))},
			{name: "retain", value: integer(&c.Checkpoint.Retain, 1)},
		}},
		{name: "schema", value: section{
			{name: "create", value: boolean(&c.Schema.Create)},
			{name: "indexes", value: boolean(&c.Schema.Indexes)},
			{name: "evolve", value: oneOf(&c.Schema.Evolve, policies)},
			{name: "types", value: section{
				{name: "boolean", value: oneOf(&c.Schema.Types.Boolean, []string{"tinyint1", "boolean"})},
				{name: "time", value: oneOf(&c.Schema.Types.Time, []string{"interval", "time"})},
				{name: "json", value: oneOf(&c.Schema.Types.JSON, []string{"jsonb", "json"})},
				{name: "enum", value: oneOf(&c.Schema.Types.Enum, []string{"text", "enum"})},
				{name: "nul", value: oneOf(&c.Schema.Types.Nul, []string{"stop", "strip", "replace"})},
			}},
		}},
		{name: "workers", value: between(&c.Workers, 1, maxWorkers)},
		{name: "source_transactions", value: oneOf(&c.Transactions, []sourceTransactions{ignoreTransactions, preserveTransactions})},
		{name: "preserve", value: section{
			{name: "broken", value: oneOf(&c.Preserve.Broken, []checkpoint.BrokenTransactions{checkpoint.StopAtBroken, checkpoint.SplitBroken})},
			{name: "wait", value: duration(&c.Preserve.Wait, time.Second)},
			{name: "memory", value: size(&c.Preserve.Memory)},
			{name: "disk", value: size(&c.Preserve.Disk)},
			{name: "dir", value: word(&c.Preserve.Dir)},
		}},
		{name: "errors", value: section{
			{name: "bad_record", value: oneOf(&c.Errors.BadRecord, []badRecords{stopAtBad, deadLetter})},
			{name: "dead_letters", value: letterTopic(&c.Errors.LetterTopic)},
		}},
		{name: "verify", value: section{
			{name: "source", value: verifySource(&c.Verify.Source)},
		}},
		{name: "migrate", value: oneOf(&c.Migrate, []ownTables{autoMigrate, manualMigrate})},
		{name: "cluster", value: boolean(&c.Cluster)},
		{name: "standby", value: boolean(&c.Standby)},
		{name: "membership", value: section{
			{name: "slots", value: between(&c.Membership.Slots, 1, maxSlots)},
			{name: "session_timeout", value: duration(&c.Membership.Session, time.Second)},
		}},
		{name: "http", value: section{
			{name: "listen", value: httpListen(&c.HTTP.Listen)},
			{name: "token", value: secretWord(&c.HTTP.Token)},
			{name: "pprof", value: boolean(&c.HTTP.Pprof)},
		}},
		{name: "log", value: section{
			{name: "level", value: oneOf(&c.Log.Level, []string{"debug", "info", "warn", "error"})},
			{name: "format", value: oneOf(&c.Log.Format, []string{"text", "json"})},
		}},
	}
}

func sourceKeys(c *sourceConfig) section {
	return section{
		{name: "brokers", value: list{&c.Brokers, 1, hostPort}, required: "Kafka's addresses, as in [127.0.0.1:9092]"},
		{name: "topics", value: list{&c.Topics, 1, expression}, required: `the topics of the tables, as in ['shop\.shop\..*']`},
		{name: "schema_changes", value: word(&c.SchemaChanges)},
		{name: "transactions", value: word(&c.Transactions)},
		{name: "deduplicate", value: boolean(&c.Deduplicate)},
		{name: "start", value: word(&c.Start, startPolicy)},
		{name: "format", value: oneOf(&c.Format, []string{"auto", "json", "avro", "protobuf"})},
		{name: "binary", value: oneOf(&c.Binary, []string{"base64", "base64-url-safe", "hex"})},
		{name: "time_precision", value: oneOf(&c.TimePrecision, []string{"auto", "adaptive", "connect"})},
		{name: "unavailable_value", value: word(&c.Unavailable, unavailableValue)},
		{name: "flattened", value: section{
			{name: "field_prefix", value: word(&c.FieldPrefix, notEmpty)},
			{name: "header_prefix", value: word(&c.HeaderPrefix, notEmpty)},
		}},
		{name: "tls", value: tlsSection{&c.TLS}},
		{name: "sasl", value: saslKeys(c)},
		{name: "registry", value: section{
			{name: "url", value: registryURL(&c.Registry.URL)},
			{name: "username", value: word(&c.Registry.Username)},
			{name: "password", value: secretWord(&c.Registry.Password)},
			{name: "tls", value: tlsSection{&c.RegistryTLS}},
			{name: "ids", value: oneOf(&c.Registry.IDs, []registry.Numbering{registry.AutoIDs, registry.GlobalIDs, registry.ContentIDs})},
		}},
	}
}

func targetKeys(c *targetConfig) section {
	return section{
		{name: "url", value: targetURL(&c.URL), required: "the database to write to, as in postgres://user:${PGPASSWORD}@host:5432/db"},
		{name: "tls", value: tlsSection{&c.TLS}},
		{name: "table", value: word(&c.Table, tableTemplate)},
		{name: "format", value: oneOf(&c.Format, []string{"json", "sql"})},
		{name: "transaction_timeout", value: duration(&c.TransactionTimeout, time.Second)},
	}
}

// policies are the values of schema.evolve.
var policies = []schema.Policy{schema.Stop, schema.Evolve, schema.Lenient, schema.Ignore}

// rules is the list of rules for tables.
type rules struct{ p *[]tableRule }

// ruleKeys are the keys of one rule.
func ruleKeys(r *tableRule) section {
	return section{
		{name: "match", required: "a regular expression of database.table", value: scalar(func(s string) error {
			if err := expression(s); err != nil {
				return err
			}
			r.Match = regexp.MustCompile("^(?:" + s + ")$")
			return nil
		})},
		{name: "skip", value: boolean(&r.Skip)},
		{name: "target", value: word(&r.Target, tableTemplate)},
		{name: "key", value: list{&r.Rows.Key, 0, columnName}},
		{name: "columns", value: section{
			{name: "exclude", value: list{&r.Rows.Exclude, 0, columnName}},
			{name: "rename", value: mapping{&r.Rows.Rename, columnName}},
		}},
		{name: "delete", value: oneOf(&r.Rows.Delete, []sqlgen.DeleteRule{sqlgen.DeleteApply, sqlgen.DeleteIgnore, sqlgen.DeleteSoft})},
		{name: "soft_delete_column", value: word(&r.Rows.Soft)},
		{name: "evolve", value: oneOf(&r.Evolve, policies)},
		{name: "truncate", value: oneOf(&r.Rows.Truncate, []sqlgen.TruncateRule{sqlgen.TruncateApply, sqlgen.TruncateIgnore, sqlgen.TruncateStop})},
	}
}

func (r rules) set(d *document, n *yaml.Node, path string) {
	n = resolve(n)
	if isNull(n) {
		return
	}
	if n.Kind != yaml.SequenceNode {
		d.fail(n, path, "must be a list of rules, as in [{match: 'shop\\.audit_.*', skip: true}], not %s", describe(n))
		return
	}
	for i, e := range n.Content {
		e = resolve(e)
		var rule tableRule
		keys, at := ruleKeys(&rule), fmt.Sprintf("%s[%d]", path, i)
		keys.set(d, e, at)
		if e.Kind == yaml.MappingNode && member(e, "match") == nil {
			d.fail(e, at, "has no match, the regular expression of the tables that it is for")
		}
		for _, p := range contradictions(&rule.Rows) {
			d.fail(e, join(at, p.key), "%s", p.what)
		}
		*r.p = append(*r.p, rule)
	}
}

// contradiction is what two keys of one rule cannot both say.
type contradiction struct{ key, what string }

func contradictions(r *sqlgen.Rules) []contradiction {
	var out []contradiction
	add := func(key, format string, args ...any) {
		out = append(out, contradiction{key, fmt.Sprintf(format, args...)})
	}
	for _, c := range r.Exclude {
		if slices.Contains(r.Key, c) {
			add("columns.exclude", "leaves out %q, which key matches rows by", c)
		}
		if _, renamed := r.Rename[c]; renamed {
			add("columns.exclude", "leaves out %q, which rename renames", c)
		}
	}
	taken := map[string]string{}
	for _, from := range slices.Sorted(maps.Keys(r.Rename)) {
		to := r.Rename[from]
		if other, twice := taken[to]; twice {
			add("columns.rename", "calls both %q and %q %q", other, from, to)
		}
		taken[to] = from
	}
	switch {
	case r.Delete == sqlgen.DeleteSoft && r.Soft == "":
		add("delete", "soft needs soft_delete_column, the target's column that is set: a boolean, or a timestamp of the delete")
	case r.Delete != sqlgen.DeleteSoft && r.Soft != "":
		add("soft_delete_column", "has no effect without delete: soft")
	case r.Soft != "" && taken[r.Soft] != "":
		add("soft_delete_column", "is what columns.rename calls %q", taken[r.Soft])
	}
	return out
}

// pipelineNames are safe as a folder's name and within a transaction's name, where ':' separates and MySQL has room
// for 64 bytes. A cluster's slots have names that end in a '+' and two numbers.
var pipelineNames = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,63}(\+[0-9]{1,19}\.[0-9]{1,4})?$`)

func pipelineName(s string) error {
	if !pipelineNames.MatchString(s) {
		return errors.New("must be 1 to 64 of the letters A-Z a-z 0-9 _ . - and not begin with a dot: it is a part of the names of transactions")
	}
	return nil
}

func hostPort(s string) error {
	host, port, err := net.SplitHostPort(s)
	if err != nil || host == "" {
		return errors.New("must be HOST:PORT, as in 127.0.0.1:9092")
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return errors.New("must end in a port from 1 to 65535")
	}
	return nil
}

// unavailableValue checks the connector's unavailable.value.placeholder.
func unavailableValue(s string) error {
	digits, ok := strings.CutPrefix(s, "hex:")
	if _, err := hex.DecodeString(digits); ok && err != nil {
		return errors.New("must have an even number of hexadecimal digits after its hex: prefix")
	}
	if s == "" || ok && digits == "" {
		return errors.New("must not be empty: an empty text would never be a value")
	}
	return nil
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("must not be empty: without a prefix metadata cannot be told from columns")
	}
	return nil
}

func startPolicy(s string) error {
	if s == "earliest" || s == "latest" {
		return nil
	}
	if _, err := time.Parse(time.RFC3339, s); err != nil {
		return errors.New("must be earliest, latest or a time as in 2026-01-31T00:00:00Z")
	}
	return nil
}

// letterTopic is where records are set aside: in the table alone, or with copies in a topic.
func letterTopic(p *string) described {
	return described{func(s string) error {
		name, isTopic := strings.CutPrefix(s, "topic ")
		switch {
		case s == "table":
			*p = ""
		case isTopic && topicName.MatchString(name):
			*p = name
		default:
			return errors.New("must be table, or topic and a topic's name, as in topic shop.dead_letters")
		}
		return nil
	}, map[string]any{"type": "string", "pattern": `^(table|topic [A-Za-z0-9._-]{1,249})$`}}
}

var topicName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,249}$`)

// targetURL checks the target's URL and never shows it: it holds the password.
func targetURL(p *string) secret {
	return func(s string) error {
		scheme, _, ok := strings.Cut(s, "://")
		switch {
		case !ok:
			return errors.New("must be a URL, as in postgres://user:${PGPASSWORD}@host:5432/db")
		case isKafka(s):
			if err := kafkasink.CheckURL(s); err != nil {
				return err
			}
			*p = s
			return nil
		case scheme != "postgres" && scheme != "postgresql" && !isMySQL(s):
			return fmt.Errorf("%q is none of its schemes; it must be a postgres://, mysql://, mariadb:// or kafka:// URL", scheme)
		}
		return databaseURL(p, s)
	}
}

// databaseURL sets p to a URL that can be read.
func databaseURL(p *string, s string) error {
	if isMySQL(s) {
		if err := mysql.CheckURL(s); err != nil {
			return err
		}
	} else if err := postgres.CheckURL(s); err != nil {
		return err
	}
	*p = s
	return nil
}

// verifySource is the source database's URL, or nothing. It may hold a password.
func verifySource(p *string) secret {
	return func(s string) error {
		scheme, _, _ := strings.Cut(s, "://")
		switch {
		case s == "":
		case !slices.Contains([]string{"mysql", "mariadb", "postgres", "postgresql"}, scheme):
			return errors.New("must be a URL of the source database, as in mysql://user:${MYSQL_PASSWORD}@host:3306/, or mariadb:// or postgres://")
		case isMySQL(s):
			if err := verifymysql.CheckURL(s); err != nil {
				return err
			}
		default:
			if err := postgres.CheckURL(s); err != nil {
				return err
			}
		}
		*p = s
		return nil
	}
}

// registryURL is a registry's address, or nothing. It may hold a password.
func registryURL(p *string) secret {
	return func(s string) error {
		if s != "" {
			if _, err := registry.New(registry.Config{URL: s}); err != nil {
				return errors.New("must be http://HOST:PORT or https://HOST:PORT, with a path if the registry has one, as in http://127.0.0.1:8080/apis/ccompat/v7")
			}
		}
		*p = s
		return nil
	}
}

// secretWord is text that no error may show.
func secretWord(p *string) secret {
	return func(s string) error {
		*p = s
		return nil
	}
}

// templateFields are what a table's name may be made of.
var templateFields = regexp.MustCompile(`\{[^{}]*\}`)

func tableTemplate(s string) error {
	rest := templateFields.ReplaceAllStringFunc(s, func(f string) string {
		switch f {
		case "{topic}", "{database}", "{schema}", "{table}":
			return "x"
		}
		return f
	})
	if strings.ContainsAny(rest, "{}") {
		return errors.New("may have {topic}, {database}, {schema} and {table} in braces, and no other braces")
	}
	parts := strings.Split(rest, ".")
	if len(parts) > 2 || parts[0] == "" || parts[len(parts)-1] == "" {
		return errors.New("must be TABLE or SCHEMA.TABLE, as in {database}.{table}")
	}
	return nil
}

func columnName(s string) error {
	if s == "" {
		return errors.New("must be the name of a column")
	}
	return nil
}

func checkpointStore(p *string) func(string) error {
	return func(s string) error {
		dir, isFile := strings.CutPrefix(s, "file:")
		scheme, _, isURL := strings.Cut(s, "://")
		switch {
		case s == "target":
		case isFile && dir == "":
			return errors.New("file: needs a directory, as in file:/var/lib/replicator")
		case isFile:
		case isURL && (scheme == "postgres" || scheme == "postgresql" || isMySQL(s)):
			return databaseURL(p, s)
		default:
			return errors.New("must be target (tables in the target database), file:DIR, or a postgres://, mysql:// or mariadb:// URL")
		}
		*p = s
		return nil
	}
}

func httpListen(p *string) scalar {
	return func(s string) error {
		if s != "" {
			_, port, err := net.SplitHostPort(s)
			if err != nil {
				return errors.New("must be HOST:PORT, as in 127.0.0.1:8088, or '' to turn it off")
			}
			if _, err := strconv.ParseUint(port, 10, 16); err != nil {
				return errors.New("must end in a port from 0 to 65535")
			}
		}
		*p = s
		return nil
	}
}
