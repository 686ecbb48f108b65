package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"replicator/debezium/kafka"
	"replicator/txnsink/mysql/mysqlserver"
)

const letterSetting = "errors.bad_record"

// TestCasePoison runs case 54: records that cannot be decoded end the pipeline where they are, or are set aside if that was asked for.
func TestCasePoison(t *testing.T) {
	t.Parallel()
	t.Run("stop", func(t *testing.T) {
		t.Parallel()
		c := loadCase(t, "54")
		r := newCaseRun(t, c)
		r.produce(t, c.records(t)...)
		for range 2 {
			code, stderr := r.run(t)
			r.stopped(t, code, stderr, "bad_record", "src1.public.pay[0] offset 1")
			r.expect(t, c.result(t, ""))
		}
	})
	for _, rows := range []string{"100000", "1"} {
		t.Run("dead-letter/rows="+rows, func(t *testing.T) {
			t.Parallel()
			c := loadCase(t, "54")
			r := newCaseRun(t, c)
			r.config["checkpoint.rows"], r.config[letterSetting] = rows, "dead-letter"
			r.produce(t, c.records(t)...)
			r.succeeds(t)
			r.expect(t, c.result(t, "with_dead_letter_policy"))
			r.expect(t, caseResult{
				Query: `SELECT "offset", row_key, class, cause <> '', convert_from(key, 'UTF8'), convert_from(value, 'UTF8') FROM replicator.dead_letters ORDER BY 1`,
				Rows: textRows(
					`1|id=7|bad_record|t|{"id":7}|{"before":null,"after":{"id":7,"amt":`,
					`2|id=8|bad_record|t|{"id":8}|`+string(c.records(t)[2].value),
					`3|id=9|bad_record|t|{"id":9}|[1,2]`,
				),
			})
		})
	}
}

// TestAvroThatCannotBeReadIsSetAside: another magic byte, and the id of a schema that the registry does not have. A registry that
// refuses to answer says nothing about a record.
func TestAvroThatCannotBeReadIsSetAside(t *testing.T) {
	t.Parallel()
	r := newAvroRun(t)
	r.config[letterSetting] = "dead-letter"
	records := r.records(t)[:2]
	magic, unknown := records[1], records[1]
	magic.value = append([]byte{1}, magic.value[1:]...)
	unknown.value = append([]byte{0, 0, 0, 0, 99}, unknown.value[5:]...)
	r.produce(t, records[0], magic, unknown)
	r.config["source.registry.password"] = "wrong"
	code, stderr := r.run(t)
	r.stopped(t, code, stderr, "401 Unauthorized")
	r.config["source.registry.password"] = "s3cret"
	r.succeeds(t)
	r.expect(t, caseResult{
		Query: `SELECT "offset", class, encode(substr(value, 1, 5), 'hex') FROM replicator.dead_letters ORDER BY 1`,
		Rows:  textRows("1|bad_record|0100000015", "2|bad_record|0000000063"),
	})
}

// TestRecordsOfOneRowKeepTheirOrder: what comes after a record that was set aside waits for it, whatever it is, through restarts,
// and goes where it belongs when the cause is gone.
func TestRecordsOfOneRowKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ delivery, workers string }{
		{"two-phase", "1"}, {"two-phase", "3"}, {"one-phase", "1"}, {"one-phase", "3"}, {"at-least-once", "1"}, {"at-most-once", "1"},
	} {
		t.Run(c.delivery+"/workers="+c.workers, func(t *testing.T) {
			t.Parallel()
			r := newCaseRun(t, &caseFile{})
			r.config["delivery"], r.config["workers"] = c.delivery, c.workers
			r.keepsOrder(t)
		})
	}
}

// TestMySQLSetsRecordsAside as PostgreSQL does: what cannot be decoded (case 54), what the target refuses, and the rows' later records.
func TestMySQLSetsRecordsAside(t *testing.T) {
	onMySQL(t, func(t *testing.T, server *mysqlserver.Server) {
		for _, rows := range []string{"100000", "1"} {
			r := newMySQLRun(t, server, "54", "poison_"+rows)
			r.config["checkpoint.rows"], r.config[letterSetting] = rows, "dead-letter"
			r.produce(t, r.records(t)...)
			r.succeeds(t)
			r.expect(t, r.result(t, "with_dead_letter_policy"))
			r.letters(t, "OFFSET, row_key, class, convert(`key` using utf8mb4), convert(value using utf8mb4)",
				`1|id=7|bad_record|{"id":7}|{"before":null,"after":{"id":7,"amt":`,
				`2|id=8|bad_record|{"id":8}|`+string(r.records(t)[2].value),
				`3|id=9|bad_record|{"id":9}|[1,2]`)
			id := r.topic(payTopic) + "/0/1"
			shown := r.command(t, "dead-letters", "show", id)
			for _, want := range []string{id, "bad_record", `key        {"id":7}`, `value      {"before":null,"after":{"id":7,"amt":`} {
				if !strings.Contains(shown, want) {
					t.Errorf("show does not say %q:\n%s", want, shown)
				}
			}
		}
		for _, c := range []struct{ delivery, workers string }{{"two-phase", "1"}, {"two-phase", "3"}, {"one-phase", "3"}, {"at-least-once", "1"}} {
			name := strings.ReplaceAll("order_"+c.delivery+c.workers, "-", "_")
			if err := server.CreateDatabase(t.Context(), name); err != nil {
				t.Fatal(err)
			}
			r := &caseRun{caseFile: &caseFile{}, url: server.URL(name), target: server.URL(name), config: map[string]string{"delivery": c.delivery, "workers": c.workers}}
			r.keepsOrder(t)
		}
	})
}

// letters compares columns of the letters; OFFSET stands for the column of that name, which each database quotes in its way.
func (r *caseRun) letters(t *testing.T, columns string, rows ...string) {
	t.Helper()
	table, offset := "replicator.dead_letters", `"offset"`
	if isMySQL(r.url) {
		table, offset = "replicator_dead_letters", "`offset`"
	}
	r.expect(t, caseResult{Query: "SELECT " + strings.ReplaceAll(columns, "OFFSET", offset) + " FROM " + table + " ORDER BY 1", Rows: textRows(rows...)})
}

// keepsOrder sets a record of a row aside, and others of it, and decides them.
func (r *caseRun) keepsOrder(t *testing.T) {
	t.Helper()
	pays := func(rows ...string) {
		t.Helper()
		r.expect(t, caseResult{Query: "SELECT id, amt FROM pay ORDER BY id", Rows: textRows(rows...)})
	}
	r.config[letterSetting] = "dead-letter"
	r.exec(t, "CREATE TABLE pay (id int PRIMARY KEY, amt int CHECK (amt < 100))")
	r.createTopic(t)
	r.send(t, pay("c", 1, 10), pay("c", 2, 500), pay("c", 3, 30), pay("u", 1, 11))
	r.succeeds(t)
	pays("1|11", "3|30")
	r.send(t, pay("u", 2, 20), pay("d", 3, 30), pay("u", 2, 210))
	r.succeeds(t)
	pays("1|11")
	r.letters(t, "OFFSET, class", "1|check_violation", "4|follows", "6|follows")

	// The row as the first two leave it is good; the last one is refused now for what it says itself.
	r.command(t, "dead-letters", "retry", "--all")
	r.succeeds(t)
	pays("1|11", "2|20")
	r.letters(t, "OFFSET, class, action", "6|check_violation|")

	r.command(t, "dead-letters", "drop", r.topic(payTopic)+"/0/6")
	r.send(t, pay("u", 2, 22))
	r.succeeds(t)
	pays("1|11", "2|22")
	r.letters(t, "count(*)", "0")
}

// TestLettersAreCopiedToATopic as Kafka had them, with what is known of them, each before its checkpoint is complete; and once more
// when that comes again.
func TestLettersAreCopiedToATopic(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, loadCase(t, "54"))
	topic := "dead-" + r.topic("letters") // no topic that source.topics matches
	r.config["errors"] = "{bad_record: dead-letter, dead_letters: topic " + topic + "}"
	records := r.records(t)
	records[1].headers = map[string][]byte{"own": []byte("kept")}
	if err := caseBroker(t).CreateTopic(topic, 1, nil); err != nil {
		t.Fatal(err)
	}
	r.produce(t, records[0])
	r.succeeds(t)
	r.produce(t, records[1:]...)
	r.dieAt(t, "INSERT INTO replicator.checkpoints", true)
	r.succeeds(t)
	r.expect(t, r.result(t, "with_dead_letter_policy"))
	r.letters(t, "OFFSET, class", "1|bad_record", "2|bad_record", "3|bad_record")

	source, err := kafka.New(kafka.Config{Brokers: caseBroker(t).Addrs(), Topics: []string{topic}})
	if err != nil {
		t.Fatal(err)
	}
	copies, _, err := source.History(t.Context(), topic, -1)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for _, c := range copies {
		headers := map[string]string{}
		for _, h := range c.Headers {
			headers[h.Key] = string(h.Value)
		}
		offset := atoi(t, headers["replicator.offset"])
		was := records[offset]
		if !bytes.Equal(c.Key, was.key) || !bytes.Equal(c.Value, was.value) || headers["replicator.topic"] != r.topic(payTopic) || headers["replicator.class"] != "bad_record" ||
			headers["replicator.cause"] == "" || headers["own"] != string(was.headers["own"]) {
			t.Errorf("copy of offset %d: key %s, value %s, headers %v", offset, c.Key, c.Value, headers)
		}
		seen[headers["replicator.offset"]]++
	}
	if seen["1"] < 1 || seen["2"] < 1 || seen["3"] < 1 || len(seen) != 3 || len(copies) < 4 {
		t.Errorf("copies by offset: %v, want each, and one of them again, because a checkpoint failed", seen)
	}
}

// TestRetriedRecordIsAppliedBeforeLaterOnes when what the target refused it for is gone.
func TestRetriedRecordIsAppliedBeforeLaterOnes(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, &caseFile{})
	r.config[letterSetting] = "dead-letter"
	r.exec(t, "CREATE TABLE pay (id int PRIMARY KEY, amt int CHECK (amt < 100)); CREATE TABLE log (id int, amt int)")
	r.exec(t, `CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO log VALUES (new.id, new.amt); RETURN new; END $$;
		CREATE TRIGGER note AFTER INSERT OR UPDATE ON pay FOR EACH ROW EXECUTE FUNCTION note();
		ALTER TABLE pay ENABLE ALWAYS TRIGGER note`)
	r.createTopic(t)
	r.send(t, pay("c", 2, 500))
	r.succeeds(t)
	r.send(t, pay("u", 2, 20))
	r.succeeds(t)
	r.exec(t, "ALTER TABLE pay DROP CONSTRAINT pay_amt_check")
	r.command(t, "dead-letters", "retry", r.topic(payTopic)+"/0/1")
	r.config["checkpoint.rows"] = "1"
	r.send(t, pay("u", 2, 21))
	r.succeeds(t)
	r.expect(t, caseResult{Query: "SELECT id, amt FROM pay", Rows: textRows("2|21")})
	r.expect(t, caseResult{Query: "SELECT count(*) FROM replicator.dead_letters", Rows: textRows("0")})
	if got := rowsText(r.exec(t, "SELECT amt FROM log")); !strings.HasSuffix(got, "\"21\"\n") {
		t.Errorf("the row's values in the order that they were written:\n%s", got)
	}
}

// TestTooManyBadRecordsStop: when nearly everything is refused it is not the records that are wrong.
func TestTooManyBadRecordsStop(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, &caseFile{})
	r.config[letterSetting] = "dead-letter"
	r.exec(t, "CREATE TABLE pay (id int PRIMARY KEY, amt int)")
	r.createTopic(t)
	var bad []caseRecord
	for i := range 101 {
		bad = append(bad, caseRecord{topic: payTopic, key: fmt.Appendf(nil, `{"id":%d}`, i), value: []byte("{")})
	}
	r.send(t, bad...)
	code, stderr := r.run(t)
	r.stopped(t, code, stderr, "more than 100 records of one checkpoint", "bad_record", "src1.public.pay[0] offset 100")
	r.expect(t, caseResult{Query: "SELECT count(*) FROM replicator.dead_letters", Rows: textRows("0")})
}

// TestWhatIsNotTheRecordsFaultIsNotSetAside: a table that is missing stops the pipeline, and a truncated one whose records wait does.
func TestWhatIsNotTheRecordsFaultIsNotSetAside(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, &caseFile{})
	r.config[letterSetting], r.config["schema.create"] = "dead-letter", "false"
	r.createTopic(t)
	r.send(t, pay("c", 1, 500))
	code, stderr := r.run(t)
	r.stopped(t, code, stderr, "unknown_table", "schema.create")
	r.exec(t, "CREATE TABLE pay (id int PRIMARY KEY, amt int CHECK (amt < 100))")
	r.succeeds(t)
	r.send(t, caseRecord{topic: payTopic, value: []byte(`{"before":null,"after":null,"op":"t","source":{"connector":"postgresql","name":"src1","db":"d","schema":"public","table":"pay"}}`)})
	code, stderr = r.run(t)
	r.stopped(t, code, stderr, "truncate_refused", "src1.public.pay[0] offset 1", "dead-letters drop")
}

// TestDeadLettersAreShown as a table and as JSON, with the record's bytes.
func TestDeadLettersAreShown(t *testing.T) {
	t.Parallel()
	r := newCaseRun(t, &caseFile{})
	r.config[letterSetting] = "dead-letter"
	r.exec(t, "CREATE TABLE pay (id int PRIMARY KEY, amt int)")
	r.createTopic(t)
	r.send(t, caseRecord{topic: payTopic, key: []byte(`{"id":1}`), value: []byte("{\x00"), headers: map[string][]byte{"h": []byte("v")}})
	r.succeeds(t)
	id := r.topic(payTopic) + "/0/0"
	var list []letterFacts
	if err := json.Unmarshal([]byte(r.command(t, "dead-letters", "list", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].ID != id || list[0].Row != "id=1" || list[0].Class != "bad_record" || list[0].Cause == "" {
		t.Errorf("got %+v", list)
	}
	var whole letterWhole
	if err := json.Unmarshal([]byte(r.command(t, "dead-letters", "show", id, "--json")), &whole); err != nil {
		t.Fatal(err)
	}
	if string(whole.Key) != `{"id":1}` || string(whole.Value) != "{\x00" || len(whole.Headers) != 1 || string(whole.Headers[0].Value) != "v" {
		t.Errorf("got %+v", whole)
	}
	text := r.command(t, "dead-letters", "show", id)
	for _, want := range []string{id, "bad_record", "h: v", `key        {"id":1}`, "value      0x7b00"} {
		if !strings.Contains(text, want) {
			t.Errorf("show does not say %q:\n%s", want, text)
		}
	}
}

const payTopic = "src1.public.pay"

// pay is a change of a row of the table pay.
func pay(op string, id, amt int) caseRecord {
	row := fmt.Sprintf(`{"id":%d,"amt":%d}`, id, amt)
	before, after := "null", row
	if op == "d" {
		before, after = row, "null"
	}
	return caseRecord{topic: payTopic, key: fmt.Appendf(nil, `{"id":%d}`, id), value: fmt.Appendf(nil,
		`{"before":%s,"after":%s,"op":%q,"source":{"connector":"postgresql","name":"src1","db":"d","schema":"public","table":"pay"}}`, before, after, op)}
}

func (r *caseRun) createTopic(t *testing.T) {
	t.Helper()
	if err := caseBroker(t).CreateTopic(r.topic(payTopic), 1, nil); err != nil {
		t.Fatal(err)
	}
}

// send writes records to a topic that is there, each as a batch of its own.
func (r *caseRun) send(t *testing.T, records ...caseRecord) {
	t.Helper()
	for _, rec := range r.brokerRecords(records) {
		if err := caseBroker(t).Produce(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
}

func (r *caseRun) succeeds(t *testing.T) {
	t.Helper()
	if code, stderr := r.run(t); code != 0 {
		t.Fatalf("exit code %d:\n%s", code, stderr)
	}
}

// command runs a command of the program on the run's configuration and returns what it prints.
func (r *caseRun) command(t *testing.T, args ...string) string {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Main(t.Context(), append(args, "--config", r.file(t)), strings.NewReader(""), &out, &errs); code != 0 {
		t.Fatalf("%v: exit code %d:\n%s", args, code, errs.String())
	}
	return out.String()
}

// textRows is rows of values without bars, where an empty one is NULL.
func textRows(rows ...string) [][]*string {
	var out [][]*string
	for _, row := range rows {
		var values []*string
		for _, v := range strings.Split(row, "|") {
			if v == "" {
				values = append(values, nil)
				continue
			}
			values = append(values, &v)
		}
		out = append(out, values)
	}
	return out
}
