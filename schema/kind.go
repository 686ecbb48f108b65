package schema

import (
	"encoding/json"
	"fmt"
	"slices"
)

// kindNames is what each kind is called in JSON, which outlives the program: a name stays what it is, whatever becomes of the constant.
// The order is that of the constants, whose numbers older programs wrote.
var kindNames = [...]string{
	"unknown", "bool", "int8", "int16", "int24", "int32", "int64", "uint8", "uint16", "uint24", "uint32", "uint64", "float32", "float64", "decimal",
	"bit", "varbit", "year", "date", "time", "time_of_day", "time_tz", "timestamp", "timestamp_tz", "interval", "char", "varchar", "text", "bytes",
	"enum", "set", "json", "jsonb", "geometry", "vector", "uuid", "other", "array",
}

// numbered is how many kinds there were when JSON had their numbers.
const numbered = 38

// String returns the kind's name.
func (k Kind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return fmt.Sprintf("kind %d", uint8(k))
}

// MarshalJSON writes the kind's name.
func (k Kind) MarshalJSON() ([]byte, error) {
	if int(k) >= len(kindNames) {
		return nil, fmt.Errorf("encode %v: it has no name", k)
	}
	return json.Marshal(kindNames[k])
}

// UnmarshalJSON reads a kind's name, or the number that programs before 1.0 wrote in its place.
func (k *Kind) UnmarshalJSON(b []byte) error {
	var name string
	if err := json.Unmarshal(b, &name); err == nil {
		i := slices.Index(kindNames[:], name)
		if i < 0 {
			return fmt.Errorf("kind %q of a column is not known: a later program wrote it", name)
		}
		*k = Kind(i)
		return nil
	}
	var number uint8
	if err := json.Unmarshal(b, &number); err != nil || number >= numbered {
		return fmt.Errorf("%s is no kind of a column", b)
	}
	*k = Kind(number)
	return nil
}
