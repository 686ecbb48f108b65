package checkpoint_test

import (
	"fmt"
	"testing"
)

// typedLine is event order of transaction n: a row of entries with a schema of its own, which has the columns that fields lists.
func typedLine(n, order int, fields, row string) string {
	const image = `{"type":"struct","optional":true,"field":"%s","name":"s.Value","fields":[%s]}`
	const text = `{"type":"string","optional":%v,"field":"%s"},`
	source := ""
	for _, name := range []string{"connector", "name", "db", "schema", "table", "lsn_proc"} {
		source += fmt.Sprintf(text, false, name)
	}
	block := fmt.Sprintf(`{"type":"struct","field":"source","fields":[%s{"type":"int64","field":"ts_ms"},{"type":"int64","field":"lsn"},{"type":"int64","field":"txId"}]}`, source)
	about := `{"type":"struct","optional":true,"field":"transaction","fields":[{"type":"string","field":"id"},{"type":"int64","field":"total_order"}]}`
	return fmt.Sprintf(`{"schema":{"type":"struct","fields":[%s,%s,%s,{"type":"string","field":"op"},%s]},"payload":{"before":null,"after":%s,"source":{"connector":"postgresql",`+
		`"name":"s","db":"b","schema":"d","table":"entries","lsn_proc":"%d","ts_ms":1,"lsn":%d,"txId":%d},"op":"c","transaction":{"id":"u:%d","total_order":%d}}}`,
		fmt.Sprintf(image, "before", fields), fmt.Sprintf(image, "after", fields), block, about, row, 100*n+order, 100*n+order, n, n, order)
}

// TestATransactionThatAltersATable of its own: PostgreSQL allows it. What it needs is made before its first row, and it is seen whole.
func TestATransactionThatAltersATable(t *testing.T) {
	t.Parallel()
	const line = `{"type":"string","optional":true,"field":"line"}`
	const more = line + `,{"type":"string","optional":true,"field":"more"}`
	l := &memoryLog{}
	l.add(transactionTopic, 0, began(1), ended(1, counted("entries", 1)), began(2), ended(2, counted("entries", 4)))
	l.add(lines, 0, typedLine(1, 1, line, `{"line":"a"}`), typedLine(2, 1, line, `{"line":"b"}`), typedLine(2, 2, more, `{"line":"c","more":"x"}`))
	l.add(lines, 0, typedLine(2, 3, line, `{"line":"d"}`), typedLine(2, 4, more, `{"line":"e","more":"y"}`))
	got := preserve(t, l, 0)
	got.saw(t, " / a", " / a|NULL, b|NULL, c|x, d|NULL, e|y")
	if got.told.Split != 0 || got.told.Whole != 2 {
		t.Errorf("told %+v, want 2 whole", got.told)
	}
}

// TestATransactionOfTooManyShapes is applied in parts, and that is told: no more of its shapes are looked at before its first row than are
// remembered.
func TestATransactionOfTooManyShapes(t *testing.T) {
	t.Parallel()
	const shapes = 260
	l := &memoryLog{}
	l.add(transactionTopic, 0, began(1), ended(1, counted("entries", shapes)))
	for n := range shapes {
		fields := fmt.Sprintf(`{"type":"string","optional":true,"field":"line"},{"type":"string","optional":true,"field":"c%d"}`, n)
		l.add(lines, 0, typedLine(1, n+1, fields, fmt.Sprintf(`{"line":"a","c%d":"x"}`, n)))
	}
	got := preserve(t, l, 0)
	if got.err != nil || got.told.Split != 1 {
		t.Errorf("Run = %v, told %+v, want it to be split", got.err, got.told)
	}
}
