package main

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"replicator/debezium"
)

// TestCasesWithoutASchema runs cases again with the schemas taken off their messages: the target's columns tell.
func TestCasesWithoutASchema(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"16", "20", "23"} {
		t.Run(number, func(t *testing.T) {
			t.Parallel()
			c := loadCase(t, number)
			r := newCaseRun(t, c)
			records := c.records(t)
			for i := range records {
				records[i].key, records[i].value = payload(t, records[i].key), payload(t, records[i].value)
			}
			r.produce(t, records...)
			if code, stderr := r.run(t); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.expect(t, c.result(t, ""))
		})
	}
}

// TestRecordsThatChangeNoRowAreCounted runs case 27 and looks for the number of what it skips.
func TestRecordsThatChangeNoRowAreCounted(t *testing.T) {
	t.Parallel()
	c := loadCase(t, "27")
	r := newCaseRun(t, c)
	r.produce(t, c.records(t)...)
	code, stderr := r.run(t)
	if code != 0 || !strings.Contains(stderr, " events=2 repeated=0 skipped=7 aside=0\n") {
		t.Errorf("exit code %d, and the log does not count 7 records:\n%s", code, stderr)
	}
}

// TestCaseHstoreAsAMap runs case 18 with the map that hstore.handling.mode=map sends.
func TestCaseHstoreAsAMap(t *testing.T) {
	t.Parallel()
	c := loadCase(t, "18")
	r := newCaseRun(t, c)
	records := c.records(t)
	for i := range records {
		v := records[i].value
		v = bytes.ReplaceAll(v, []byte(`{"type":"string","optional":true,"name":"io.debezium.data.Json","version":1,"field":"attrs"}`),
			[]byte(`{"type":"map","keys":{"type":"string"},"values":{"type":"string","optional":true},"optional":true,"field":"attrs"}`))
		records[i].value = bytes.ReplaceAll(v, []byte(`"{\"colour\":\"red\",\"size\":null}"`), []byte(`{"colour":"red","size":null}`))
	}
	if !bytes.Contains(records[0].value, []byte(`"type":"map"`)) || !bytes.Contains(records[0].value, []byte(`{"colour":`)) {
		t.Fatalf("the case is not as it was: %s", records[0].value)
	}
	r.produce(t, records...)
	if code, stderr := r.run(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	r.expect(t, c.result(t, ""))
}

// TestCaseTextKeys runs the part of case 21 that is not MySQL's alone: text beyond the basic plane, and keys that differ
// in case.
func TestCaseTextKeys(t *testing.T) {
	t.Parallel()
	r := nickRun(t, "CREATE TABLE nick (name varchar(40) PRIMARY KEY, city varchar(40))")
	r.produce(t, r.records(t)...)
	if code, stderr := r.run(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
	want := r.result(t, "")
	want.Query = `SELECT upper(encode(name::bytea, 'hex')), upper(encode(city::bytea, 'hex')) FROM nick ORDER BY name COLLATE "C"`
	r.expect(t, want)
}

// foldingKeys are columns in which Ada and ADA are one key.
var foldingKeys = map[string]string{
	"citext":    `CREATE EXTENSION citext; CREATE TABLE nick (name citext PRIMARY KEY, city varchar(40))`,
	"collation": `CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false); CREATE TABLE nick (name varchar(40) COLLATE ci PRIMARY KEY, city varchar(40))`,
	"domain":    `CREATE EXTENSION citext; CREATE DOMAIN nickname AS citext; CREATE TABLE nick (name nickname PRIMARY KEY, city varchar(40))`,
}

// TestCaseCollidingKeys runs the variant of case 21 whose target takes two keys of the source for one.
func TestCaseCollidingKeys(t *testing.T) {
	t.Parallel()
	for name, setup := range foldingKeys {
		for _, rows := range []string{"100000", "1"} {
			t.Run(name+"/rows="+rows, func(t *testing.T) {
				t.Parallel()
				r := nickRun(t, setup)
				r.config["checkpoint.rows"] = rows
				r.produce(t, r.records(t)...)
				code, stderr := r.run(t)
				r.stopped(t, code, stderr, "key_collision", "table public.nick", "src1.shop.nick[0] offset 2", "key name=ADA")
				r.expect(t, caseResult{Query: `SELECT name FROM nick WHERE city = 'y'`})
			})
		}
	}
}

// TestFoldedKeyChangesItsCase follows a source whose own key folds: a row's key can change in case alone, and a deleted
// key come back in another.
func TestFoldedKeyChangesItsCase(t *testing.T) {
	t.Parallel()
	row := func(op, name, city string) []byte {
		image := fmt.Sprintf(`{"name":%q,"city":%q}`, name, city)
		before, after := "null", image
		if op == "d" {
			before, after = image, "null"
		}
		return fmt.Appendf(nil, `{"before":%s,"after":%s,"source":{"db":"shop","table":"nick"},"op":%q}`, before, after, op)
	}
	key := func(name string) []byte { return fmt.Appendf(nil, `{"name":%q}`, name) }
	for name, setup := range foldingKeys {
		for _, rows := range []string{"100000", "1"} {
			t.Run(name+"/rows="+rows, func(t *testing.T) {
				t.Parallel()
				r := nickRun(t, setup)
				r.config["checkpoint.rows"] = rows
				event := func(op, name, city, header, other string) caseRecord {
					c := caseRecord{topic: "src1.shop.nick", key: key(name), value: row(op, name, city)}
					if header != "" {
						c.headers = map[string][]byte{header: key(other)}
					}
					return c
				}
				r.produce(t,
					event("c", "Ada", "x", "", ""), event("c", "Bob", "x", "", ""),
					event("d", "Ada", "x", "__debezium.newkey", "ADA"), event("c", "ADA", "y", "__debezium.oldkey", "Ada"),
					event("d", "Bob", "x", "", ""), event("c", "BOB", "z", "", ""), event("u", "BOB", "w", "", ""))
				if code, stderr := r.run(t); code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
				r.expect(t, caseResult{Query: `SELECT name, city FROM nick ORDER BY name::text COLLATE "C"`, Rows: [][]*string{{ptr("ADA"), ptr("y")}, {ptr("BOB"), ptr("w")}}})
			})
		}
	}
}

// nickRun is case 21 with a table of its own.
func nickRun(t *testing.T, setup string) *caseRun {
	t.Helper()
	c := loadCase(t, "21")
	c.Setup = yaml.Node{}
	r := newCaseRun(t, c)
	r.exec(t, setup)
	return r
}

// TestCasePlaceholderWithoutARow runs case 23 where the row that must keep its value is not there.
func TestCasePlaceholderWithoutARow(t *testing.T) {
	t.Parallel()
	c := loadCase(t, "23")
	r := newCaseRun(t, c)
	r.exec(t, "DELETE FROM article")
	r.produce(t, c.records(t)...)
	code, stderr := r.run(t)
	r.stopped(t, code, stderr, "unavailable_value", "article", "src1.public.article[0]", "id=1")
	r.expect(t, caseResult{Query: "SELECT count(*) FROM article", Rows: [][]*string{{ptr("0")}}})
}

// TestCaseFlattenedRestarts runs case 26 and stops before every record, so that a tombstone is the first that a process
// sees of its topic.
func TestCaseFlattenedRestarts(t *testing.T) {
	t.Parallel()
	c := loadCase(t, "26")
	r := newCaseRun(t, c)
	r.exec(t, `ALTER TABLE stock ADD "__op" text`) // metadata is a column where the target has it
	for _, record := range c.records(t) {
		r.produce(t, record)
		if code, stderr := r.run(t); code != 0 {
			t.Fatalf("exit code %d:\n%s", code, stderr)
		}
	}
	r.expect(t, caseResult{Query: `SELECT id, qty, "__op" FROM stock`, Rows: [][]*string{{ptr("3"), ptr("8"), ptr("u")}}})
}

// TestCaseFlattenedWithOwnPrefixes runs case 26 with the metadata under another prefix, in fields and in headers.
func TestCaseFlattenedWithOwnPrefixes(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(c *caseRecord, op string){
		"fields": func(c *caseRecord, _ string) {
			c.value = bytes.ReplaceAll(c.value, []byte(`"__op"`), []byte(`"dbz op"`))
		},
		"headers": func(c *caseRecord, op string) { c.headers = map[string][]byte{"dbz op": []byte(op)} },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := loadCase(t, "26")
			r := newCaseRun(t, c)
			r.exec(t, "DROP TABLE stock") // it is created without the metadata
			r.config["source.flattened.field_prefix"] = "dbz "
			r.config["source.flattened.header_prefix"] = "dbz "
			records := c.records(t)
			for i := range records {
				if records[i].value == nil {
					continue
				}
				var row map[string]any
				if err := json.Unmarshal(records[i].value, &row); err != nil {
					t.Fatal(err)
				}
				change(&records[i], fmt.Sprint(row["__op"]))
				if name == "headers" {
					records[i].value = fmt.Appendf(nil, `{"id":%v,"qty":%v}`, row["id"], row["qty"])
				}
			}
			for i := range records { // with a schema, for the table to be created
				records[i].value = withRowSchema(records[i].value)
			}
			r.produce(t, records...)
			if code, stderr := r.run(t); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.expect(t, caseResult{Query: "SELECT * FROM stock", Rows: c.result(t, "").Rows})
		})
	}
}

// withRowSchema wraps a flattened row of case 26.
func withRowSchema(row []byte) []byte {
	if row == nil {
		return nil
	}
	fields := `{"type":"int32","field":"id"},{"type":"int32","field":"qty"}`
	for _, name := range []string{"__deleted", "__op", "dbz op"} {
		if bytes.Contains(row, []byte(`"`+name+`"`)) {
			fields += `,{"type":"string","optional":true,"field":"` + name + `"}`
		}
	}
	return fmt.Appendf(nil, `{"schema":{"type":"struct","fields":[%s],"name":"src1.shop.stock.Value"},"payload":%s}`, fields, row)
}

// TestDeletesOfFlattenedRowsByMode deletes a row as each delete.tombstone.handling.mode sends it.
func TestDeletesOfFlattenedRowsByMode(t *testing.T) {
	t.Parallel()
	gone, rewritten, tombstone := "1", `{"id":1,"qty":5,"__deleted":"true"}`, ""
	withSchema := strings.Replace(string(withRowSchema([]byte("null"))), `],"name"`, `],"optional":true,"name"`, 1)
	for mode, test := range map[string]struct {
		values []string // of the records that the delete becomes; empty: null
		rows   string   // that are left
	}{
		"drop":                   {nil, "2"},                  // nothing tells of the delete
		"tombstone":              {[]string{tombstone}, gone}, // of a converter that writes no null
		"tombstone, JSON":        {[]string{"null"}, gone},
		"tombstone, with schema": {[]string{withSchema}, gone},
		"none, of Debezium 1":    {[]string{withSchema, tombstone}, gone},
		"delete-to-tombstone":    {[]string{tombstone}, gone},
		"rewrite":                {[]string{rewritten}, gone},
		"rewrite-with-tombstone": {[]string{rewritten, tombstone}, gone},
	} {
		for _, rows := range []string{"100000", "1"} {
			t.Run(mode+"/rows="+rows, func(t *testing.T) {
				t.Parallel()
				r := newCaseRun(t, loadCase(t, "26"))
				r.config["checkpoint.rows"] = rows
				key := []byte(`{"id":1}`)
				records := []caseRecord{
					{topic: "src1.shop.stock", key: key, value: []byte(`{"id":1,"qty":5}`)},
					{topic: "src1.shop.stock", key: []byte(`{"id":2}`), value: []byte(`{"id":2,"qty":5}`)},
				}
				for _, v := range test.values {
					record := caseRecord{topic: "src1.shop.stock", key: key}
					if v != tombstone {
						record.value = []byte(v)
					}
					records = append(records, record)
				}
				r.produce(t, records...)
				if code, stderr := r.run(t); code != 0 {
					t.Fatalf("exit code %d:\n%s", code, stderr)
				}
				r.expect(t, caseResult{Query: "SELECT count(*) FROM stock", Rows: [][]*string{{&test.rows}}})
			})
		}
	}
}

// TestCaseOwnPlaceholder runs case 23 with another unavailable.value.placeholder.
func TestCaseOwnPlaceholder(t *testing.T) {
	t.Parallel()
	for option, sent := range map[string]string{"(not sent)": "(not sent)", "hex:286e6f742073656e7429": "(not sent)"} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			c := loadCase(t, "23")
			r := newCaseRun(t, c)
			r.config["source.unavailable_value"] = option
			records := c.records(t)
			for i := range records {
				v := records[i].value
				for _, form := range []func(string) string{strings.Clone, func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }} {
					v = bytes.ReplaceAll(v, jsonString(form(debezium.DefaultUnavailable)), jsonString(form(sent)))
				}
				records[i].value = v
			}
			r.produce(t, records...)
			if code, stderr := r.run(t); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.expect(t, c.result(t, ""))
		})
	}
}

// TestTombstonesAloneDoNothing starts at a tombstone whose delete came before: of a table that the target does not have,
// and of one whose rows the key does not find.
func TestTombstonesAloneDoNothing(t *testing.T) {
	t.Parallel()
	c := loadCase(t, "26")
	for name, setup := range map[string]string{"no table": "DROP TABLE stock", "no key": "ALTER TABLE stock DROP CONSTRAINT stock_pkey", "another key": "ALTER TABLE stock DROP COLUMN id, ADD no int PRIMARY KEY"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRun(t, c)
			r.exec(t, setup)
			r.produce(t, c.records(t)[3])
			if code, stderr := r.run(t); code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.expect(t, caseResult{
				Query: "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'",
				Rows:  [][]*string{{ptr(map[bool]string{true: "0", false: "1"}[name == "no table"])}},
			})
		})
	}
}

// TestCaseFlattenedWithoutAKey runs the notes of case 26: a null value without a key says nothing about what to delete.
func TestCaseFlattenedWithoutAKey(t *testing.T) {
	t.Parallel()
	c := loadCase(t, "26")
	r := newCaseRun(t, c)
	records := c.records(t)
	records[3].key = nil
	r.produce(t, records...)
	code, stderr := r.run(t)
	r.stopped(t, code, stderr, "bad_record", "src1.shop.stock[0] offset 3", "key is null")
	r.expect(t, caseResult{Query: "SELECT id, qty FROM stock"})
}
