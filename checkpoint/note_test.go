package checkpoint

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"replicator/debezium"
	"replicator/schema"
)

// noted is what the files in testdata/notes say.
func noted() *tableNote {
	now := "CURRENT_TIMESTAMP"
	return &tableNote{
		At: debezium.LogPosition{Log: "binlog", At: [4]uint64{3, 4711}}, Offset: 7, Topic: "shop.shop.orders",
		Table: &schema.Table{
			Name: schema.Name{Schema: "shop", Table: "orders"},
			Columns: []schema.Column{
				{Name: "id", Type: schema.Type{Kind: schema.Uint64, Native: "BIGINT UNSIGNED"}, NotNull: true, AutoIncrement: true},
				{Name: "price", Type: schema.Type{Kind: schema.Decimal, Length: 12, Scale: 2, Native: "DECIMAL"}},
				{Name: "state", Type: schema.Type{Kind: schema.Enum, Values: []string{"new", "paid"}, Native: "ENUM"}, Comment: "of the order"},
				{Name: "tags", Type: schema.Type{Kind: schema.Array, Elem: &schema.Type{Kind: schema.Varchar, Length: 20}}},
				{Name: "at", Type: schema.Type{Kind: schema.TimestampTZ, Scale: 6, Native: "TIMESTAMP"}, Default: &now},
			},
			PrimaryKey: []string{"id"}, Unique: [][]string{{"price", "state"}},
			Indexes: []schema.Index{{Name: "by_state", Columns: []string{"state"}}},
		},
	}
}

// The notes are in targets that outlive the program: what an older one wrote is read, and what this one writes does not change by accident.
func TestNotesOfTablesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	files := map[string][]byte{}
	for _, name := range []string{"kinds-by-number.json", "kinds-by-name.json"} {
		b, err := os.ReadFile(filepath.Join("testdata", "notes", name))
		if err != nil {
			t.Fatal(err)
		}
		files[name] = bytes.TrimSpace(b)
		got := new(tableNote)
		if err := json.Unmarshal(b, got); err != nil || !reflect.DeepEqual(got, noted()) {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, noted())
		}
	}
	if got, err := json.Marshal(noted()); err != nil || !bytes.Equal(got, files["kinds-by-name.json"]) {
		t.Errorf("got %s, %v, want %s", got, err, files["kinds-by-name.json"])
	}
}
