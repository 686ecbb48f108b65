package main

import (
	"fmt"
	"strings"
	"testing"
)

// TestBadInputIsLocatedAndNothingIsCommitted: whatever is wrong with a record, the error says where it is and what it was
// meant for, and no row of its checkpoint is there. Avro's bad input is in TestAvroThatCannotBeReadStops.
func TestBadInputIsLocatedAndNothingIsCommitted(t *testing.T) {
	t.Parallel()
	const fields = `{"type":"int32","field":"id"},{"type":"int64","optional":true,"field":"n"},{"type":"string","optional":true,"field":"s"},{"type":"bytes","optional":true,"field":"b"}`
	message := func(row string) string {
		return fmt.Sprintf(`{"schema":{"type":"struct","fields":[{"type":"struct","fields":[%s],"optional":true,"field":"after"},{"type":"struct","fields":[],"field":"source"},{"type":"string","field":"op"}]},`+
			`"payload":{"after":%s,"source":{"connector":"postgresql","name":"bad","db":"d","schema":"shop","table":"t"},"op":"c"}}`, fields, row)
	}
	for name, c := range map[string]struct {
		row    string
		class  string
		column string // empty: it is not known
	}{
		"a schema that contradicts the bytes: a number": {`{"id":2,"n":"x"}`, "invalid_value", "n"},
		"a schema that contradicts the bytes: a field":  {`{"id":2,"nope":1}`, "bad_record", "nope"},
		"a schema that contradicts the bytes: a list":   {`{"id":2,"s":[1]}`, "invalid_value", "s"},
		"a value out of the column's range":             {`{"id":2,"n":40000}`, "value_out_of_range", "n"},
		"a number of many digits":                       {`{"id":2,"n":123456789012345678901234567890}`, "value_out_of_range", "n"},
		"text that is longer than its column":           {`{"id":2,"s":"abcdef"}`, "value_too_large", "s"},
		"text that is not UTF-8":                        {`{"id":2,"s":"` + "\xff" + `"}`, "bad_record", "s"},
		"half of a surrogate pair":                      {`{"id":2,"s":"\ud800"}`, "bad_record", "s"},
		"bytes that are not base64":                     {`{"id":2,"b":"?"}`, "invalid_value", "b"},
		"a value that ends too early":                   {`{"id":2,"s":"x`, "bad_record", ""},
		"a field that is there twice":                   {`{"id":2,"n":1,"n":2}`, "bad_record", "n"},
		"a huge depth":                                  {`{"id":2,"s":` + nested(100_000) + `}`, "bad_record", "s"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newCaseRun(t, &caseFile{})
			r.config["schema.evolve"] = "stop"
			r.exec(t, "CREATE TABLE t (id int PRIMARY KEY, n smallint, s varchar(5), b bytea)")
			const topic = "bad.shop.t"
			if err := caseBroker(t).CreateTopic(r.topic(topic), 1, nil); err != nil {
				t.Fatal(err)
			}
			for _, row := range []string{`{"id":1,"n":1,"s":"ok","b":"AQ=="}`, c.row} {
				record := caseRecord{topic: topic, value: []byte(message(row))}
				if err := caseBroker(t).Produce(t.Context(), r.brokerRecords([]caseRecord{record})...); err != nil {
					t.Fatal(err)
				}
			}
			code, stderr := r.run(t)
			words := []string{c.class + ": ", "t, ", topic + "[0] offset 1"}
			if c.column != "" {
				words = append(words, "column "+c.column+", ")
			}
			r.stopped(t, code, stderr, words...)
			r.expect(t, caseResult{Query: "SELECT id FROM t"})
		})
	}
}

// TestRefusedValuesOfRowsWithoutASchemaSayWhy: nothing tells whether their columns could be made wider, and that is not what is wrong.
func TestRefusedValuesOfRowsWithoutASchemaSayWhy(t *testing.T) {
	t.Parallel()
	for value, class := range map[string]string{`40000`: "value_out_of_range", `1.5`: "value_out_of_range", `"x"`: "invalid_value"} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			r := newRuleRun(t, "[]", "CREATE TABLE t (id int PRIMARY KEY, n smallint)")
			r.send(t, r.event("c", "null", `{"id":1,"n":1}`), r.event("c", "null", `{"id":2,"n":`+value+`}`))
			code, stderr := r.replicate(t, "")
			r.stopped(t, code, stderr, class+": table public.t, column n, ", "offset 1, key id=2")
			r.holds(t, "SELECT id FROM t", "")
		})
	}
}

// TestEventWithoutATableIsRefused: it would be written to a table without a name.
func TestEventWithoutATableIsRefused(t *testing.T) {
	t.Parallel()
	for _, source := range []string{`"table":""`, `"table":null`, `"collection":"t"`} {
		t.Run(source, func(t *testing.T) {
			t.Parallel()
			r := newRuleRun(t, "[]", "CREATE TABLE t (id int PRIMARY KEY)")
			r.send(t, strings.Replace(r.event("c", "null", `{"id":1}`), `"table":"t"`, source, 1))
			code, stderr := r.replicate(t, "")
			r.stopped(t, code, stderr, "bad_record: ", "offset 0", "names no table")
		})
	}
}

// nested is so many arrays, one in the other.
func nested(depth int) string {
	b := make([]byte, 2*depth)
	for i := range depth {
		b[i], b[2*depth-1-i] = '[', ']'
	}
	return string(b)
}
