package debezium

import (
	"encoding/json"
	"math/big"
	"strings"

	"replicator/schema"
)

// defaultText is the default of a field in the form that schema-change records have, as in new or 1.50; nil: there is none, or
// its type says it in units that only its values are read by.
func (f *Field) defaultText() *string {
	if f.Default == nil || *f.Default == "null" {
		return nil
	}
	raw := *f.Default
	switch {
	case f.Semantic == "org.apache.kafka.connect.data.Decimal":
		return decimalText(raw, given(number(f.Params, "scale"), 0))
	case f.Type == String && (f.Semantic == "" || strings.HasPrefix(f.Semantic, "io.debezium.data.Enum")):
		var s string
		if json.Unmarshal([]byte(raw), &s) != nil {
			return nil
		}
		if f.SourceType().Kind == schema.Text { // an expression, as there
			s = "'" + strings.ReplaceAll(s, "'", "''") + "'"
		}
		return &s
	case f.Semantic == "" && (f.Type == Boolean || f.Type >= Int8 && f.Type <= Float64):
		return &raw
	}
	return nil
}

// maxDecimalBytes bounds a default's unscaled value, which holds more digits than any database's decimal has.
const maxDecimalBytes = 256

// decimalText reads Kafka Connect's Decimal: base64 of a big-endian number in two's complement.
func decimalText(raw string, scale int) *string {
	var unscaled []byte
	if json.Unmarshal([]byte(raw), &unscaled) != nil || len(unscaled) == 0 || len(unscaled) > maxDecimalBytes || scale < 0 || scale > maxDecimalBytes {
		return nil
	}
	n := new(big.Int).SetBytes(unscaled)
	if unscaled[0]&0x80 != 0 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(unscaled))))
	}
	digits := new(big.Int).Abs(n).String()
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	text := digits[:len(digits)-scale]
	if scale > 0 {
		text += "." + digits[len(digits)-scale:]
	}
	if n.Sign() < 0 {
		text = "-" + text
	}
	return &text
}
