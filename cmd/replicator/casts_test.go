package main

import (
	"fmt"
	"testing"
)

// TestCastsOfTheTargetChangeNoValue: an element of an array, and a value of a domain, is text that PostgreSQL casts, and a cast rounds
// and cuts off without a word. What does not fit stops the pipeline, as it does in a column of the type itself.
func TestCastsOfTheTargetChangeNoValue(t *testing.T) {
	t.Parallel()
	array := func(items string) string {
		return `{"type":"array","optional":true,"items":{` + items + `,"optional":true},"field":"v"}`
	}
	const text, double = `{"type":"string","optional":true,"field":"v"}`, `{"type":"double","optional":true,"field":"v"}`
	texts, micros, bits := array(`"type":"string"`), array(`"type":"int64","name":"io.debezium.time.MicroTimestamp"`), array(`"type":"bytes","name":"io.debezium.data.Bits","parameters":{"length":"5"}`)
	instants := array(`"type":"string","name":"io.debezium.time.ZonedTimestamp"`)
	for name, c := range map[string]struct {
		column, field, value string
		want                 string // the row's text, or an error's class
		refused              bool
	}{
		"texts that fit":          {"varchar(3)[]", texts, `["abc","ab ",null]`, `{abc,"ab ",NULL}`, false},
		"a text too long":         {"varchar(3)[]", texts, `["abcd"]`, "value_too_large", true},
		"decimals that fit":       {"numeric(5,2)[]", texts, `["1.5","-0.01"]`, "{1.50,-0.01}", false},
		"a decimal too exact":     {"numeric(5,2)[]", texts, `["1.239"]`, "value_out_of_range", true},
		"bits that fit":           {"bit(7)[]", bits, `["FQ=="]`, "{0010101}", false},
		"too many bits":           {"bit(3)[]", bits, `["FQ=="]`, "value_out_of_range", true},
		"times that fit":          {"timestamp(3)[]", micros, `[600000,-62167219200000000]`, `{"1970-01-01 00:00:00.6","0001-01-01 00:00:00 BC"}`, false},
		"a time too exact":        {"timestamp(0)[]", micros, `[600000]`, "value_out_of_range", true},
		"instants of odd years":   {"timestamptz[]", instants, `["-0043-03-15T00:00:00Z","+10000-02-28T00:00:00Z","infinity"]`, `{"0044-03-15 00:00:00+00 BC","10000-02-28 00:00:00+00",infinity}`, false},
		"a domain that fits":      {"short", text, `"abc"`, "abc", false},
		"a domain too short":      {"short", text, `"abcdef"`, "value_too_large", true},
		"a domain of a domain":    {"shorter", text, `"abcdef"`, "value_too_large", true},
		"a domain too coarse":     {"price", double, `1.239`, "value_out_of_range", true},
		"a domain of numbers":     {"price", double, `1.5`, "1.50", false},
		"a domain's own check":    {"price", double, `-1.5`, "check_violation", true},
		"a time of day with zone": {"timetz(0)", `{"type":"string","optional":true,"name":"io.debezium.time.ZonedTime","field":"v"}`, `"10:00:00.6Z"`, "value_out_of_range", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRuleRun(t, "[]", `CREATE DOMAIN short AS varchar(3); CREATE DOMAIN shorter AS short; CREATE DOMAIN price AS numeric(5,2) CHECK (VALUE >= 0);
CREATE TABLE t (id int PRIMARY KEY, v `+c.column+`)`)
			r.config["schema.evolve"] = "stop"
			r.send(t, fmt.Sprintf(`{"schema":{"type":"struct","fields":[{"type":"struct","optional":true,"fields":[{"type":"int32","field":"id"},%s],"field":"after"},{"type":"struct","fields":[],"field":"source"},{"type":"string","field":"op"}]},`+
				`"payload":{"after":{"id":1,"v":%s},"source":{"connector":"postgresql","name":%q,"db":"app","schema":"shop","table":"t"},"op":"c"}}`, c.field, c.value, r.prefix))
			code, stderr := r.replicate(t, "")
			if c.refused {
				r.stopped(t, code, stderr, c.want+": table public.t, ", "offset 0")
				r.holds(t, "SELECT v FROM t", "")
				return
			}
			if code != 0 {
				t.Fatalf("exit code %d:\n%s", code, stderr)
			}
			r.holds(t, "SET timezone = 'UTC'; SELECT v FROM t", c.want)
		})
	}
}
