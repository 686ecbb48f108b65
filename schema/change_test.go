package schema

import (
	"reflect"
	"testing"
)

func TestIndexesFollowATableAsAtMySQL(t *testing.T) {
	t.Parallel()
	before := []Index{
		{Name: "a", Columns: []string{"a"}, Unique: true},
		{Name: "ab", Columns: []string{"a", "B"}},
		{Name: "words", Columns: []string{"w"}, Special: "fulltext"},
		{Name: "computed", Special: "expression"},
	}
	for _, c := range []struct {
		name   string
		change Change
		want   []Index
	}{
		{"nothing said", Change{Kind: AlterTable}, before},
		{"dropped table", Change{Kind: DropTable}, nil},
		{"dropped column", Change{Kind: AlterTable, Dropped: []string{"A"}}, []Index{{Name: "ab", Columns: []string{"B"}}, before[2], before[3]}},
		{"traded names", Change{Kind: AlterTable, Renamed: []Rename{{"a", "b"}, {"b", "a"}}}, []Index{
			{Name: "a", Columns: []string{"b"}, Unique: true}, {Name: "ab", Columns: []string{"b", "a"}}, before[2], before[3],
		}},
		{"dropped, renamed and made", Change{
			Kind: AlterTable, DroppedIndexes: []string{"AB"}, RenamedIndexes: []Rename{{"words", "w"}},
			Indexes: []Index{{Columns: []string{"a", "w"}}, {Columns: []string{"a"}}, {Special: "expression"}},
		}, []Index{
			before[0],
			{Name: "w", Columns: []string{"w"}, Special: "fulltext"},
			before[3],
			{Name: "a_2", Columns: []string{"a", "w"}},
			{Name: "a_3", Columns: []string{"a"}},
			{Name: "functional_index", Special: "expression"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := c.change.IndexesAfter(before); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}
