package schema_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"replicator/schema"
)

// written is what every kind is called and was numbered in what a target remembers of its tables: neither may change.
const written = "unknown=0 bool=1 int8=2 int16=3 int24=4 int32=5 int64=6 uint8=7 uint16=8 uint24=9 uint32=10 uint64=11 float32=12 float64=13 " +
	"decimal=14 bit=15 varbit=16 year=17 date=18 time=19 time_of_day=20 time_tz=21 timestamp=22 timestamp_tz=23 interval=24 char=25 varchar=26 " +
	"text=27 bytes=28 enum=29 set=30 json=31 jsonb=32 geometry=33 vector=34 uuid=35 other=36 array=37"

// kinds is every constant, in the order of written.
var kinds = []schema.Kind{
	schema.Unknown, schema.Bool, schema.Int8, schema.Int16, schema.Int24, schema.Int32, schema.Int64, schema.Uint8, schema.Uint16, schema.Uint24,
	schema.Uint32, schema.Uint64, schema.Float32, schema.Float64, schema.Decimal, schema.Bit, schema.VarBit, schema.Year, schema.Date, schema.Time,
	schema.TimeOfDay, schema.TimeTZ, schema.Timestamp, schema.TimestampTZ, schema.Interval, schema.Char, schema.Varchar, schema.Text, schema.Bytes,
	schema.Enum, schema.Set, schema.JSON, schema.JSONB, schema.Geometry, schema.Vector, schema.UUID, schema.Other, schema.Array,
}

func TestKindsAreWrittenByNameAndReadByNumberToo(t *testing.T) {
	t.Parallel()
	var byName, byNumber []string
	for pair := range strings.FieldsSeq(written) {
		name, number, _ := strings.Cut(pair, "=")
		byName, byNumber = append(byName, `"`+name+`"`), append(byNumber, number)
	}
	for _, list := range [][]string{byName, byNumber} {
		var got []schema.Kind
		if err := json.Unmarshal([]byte("["+strings.Join(list, ",")+"]"), &got); err != nil || !slices.Equal(got, kinds) {
			t.Errorf("%v reads as %v, %v", list, got, err)
		}
	}
	// A list of bytes would be written in base64.
	type holder struct{ K schema.Kind }
	for i, k := range kinds {
		if b, err := json.Marshal(holder{k}); err != nil || string(b) != `{"K":`+byName[i]+`}` {
			t.Errorf("%v is written as %s, %v; want %s", k, b, err, byName[i])
		}
	}
}

func TestKindsThatAreNotKnownAreRefused(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`"money"`: `kind "money" of a column is not known: a later program wrote it`, `38`: "38 is no kind of a column",
		`-1`: "-1 is no kind of a column", `256`: "256 is no kind of a column", `{}`: "{} is no kind of a column",
	} {
		var k schema.Kind
		if err := json.Unmarshal([]byte(in), &k); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, %v; want the error %s", in, k, err, want)
		}
	}
	if b, err := json.Marshal(schema.Array + 1); err == nil {
		t.Errorf("a kind without a name is written as %s", b)
	}
}
