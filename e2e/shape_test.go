package e2e

import (
	"slices"
	"testing"
)

func pointer(s string) *string { return &s }

// The definitions on both sides are what MySQL 9 and PostgreSQL 15 have in their catalogs.
func TestBothCatalogsOfOneTableComeToTheSame(t *testing.T) {
	t.Parallel()
	source, err := MySQLShape([]Definition{
		{Name: "id", Type: "bigint", NotNull: true, Auto: true},
		{Name: "n", Type: "int unsigned", NotNull: true, Default: pointer("-5")},
		{Name: "price", Type: "decimal(18,4)", NotNull: true, Default: pointer("0.0000")},
		{Name: "code", Type: "varchar(8)", Default: pointer("it's")},
		{Name: "tags", Type: "set('a','b')", NotNull: true, Default: pointer("")},
		{Name: "made", Type: "datetime(3)", Default: pointer("CURRENT_TIMESTAMP(3)")},
		{Name: "at", Type: "timestamp(6)"},
		{Name: "t", Type: "time"},
		{Name: "sum", Type: "int", Default: pointer("(1 + 2)"), Unsaid: true},
		{Name: "a_column_name_that_is_exactly_sixty_four_characters_long_in_mysq", Type: "bit(9)"},
	}, []Key{{"PRIMARY KEY", []string{"id"}}, {"UNIQUE", []string{"code", "n"}}, {"INDEX", []string{"at"}}, {"INDEX", []string{"at"}}})
	if err != nil {
		t.Fatal(err)
	}
	target := PostgresShape([]Definition{
		{Name: "made", Type: "timestamp(3) without time zone", Default: pointer("CURRENT_TIMESTAMP")},
		{Name: "id", Type: "bigint", NotNull: true, Auto: true},
		{Name: "n", Type: "bigint", NotNull: true, Default: pointer("'-5'::integer")},
		{Name: "price", Type: "numeric(18,4)", NotNull: true, Default: pointer("0")},
		{Name: "code", Type: "character varying(8)", Default: pointer("'it''s'::character varying")},
		{Name: "tags", Type: "text", NotNull: true, Default: pointer("''::text")},
		{Name: "at", Type: "timestamp with time zone"},
		{Name: "t", Type: "interval(0)"},
		{Name: "sum", Type: "integer"},
		{Name: "a_column_name_that_is_exactly_sixty_four_characters_lo_7c7d79ab", Type: "bit(9)"},
	}, []Key{{"UNIQUE", []string{"code", "n"}}, {"INDEX", []string{"at"}}, {"PRIMARY KEY", []string{"id"}}})
	if !slices.Equal(source, target) {
		t.Errorf("source %q\ntarget %q", source, target)
	}
}

// Each of these is a mistake that a comparison of shapes is for.
func TestShapesThatDifferAreToldApart(t *testing.T) {
	t.Parallel()
	is := PostgresShape([]Definition{{Name: "a", Type: "integer", NotNull: true, Default: pointer("5")}}, []Key{{"UNIQUE", []string{"a"}}})
	for name, source := range map[string]struct {
		column Definition
		key    Key
	}{
		"type":     {Definition{Name: "a", Type: "bigint", NotNull: true, Default: pointer("5")}, Key{"UNIQUE", []string{"a"}}},
		"not null": {Definition{Name: "a", Type: "int", Default: pointer("5")}, Key{"UNIQUE", []string{"a"}}},
		"default":  {Definition{Name: "a", Type: "int", NotNull: true, Default: pointer("6")}, Key{"UNIQUE", []string{"a"}}},
		"none":     {Definition{Name: "a", Type: "int", NotNull: true}, Key{"UNIQUE", []string{"a"}}},
		"identity": {Definition{Name: "a", Type: "int", NotNull: true, Default: pointer("5"), Auto: true}, Key{"UNIQUE", []string{"a"}}},
		"key":      {Definition{Name: "a", Type: "int", NotNull: true, Default: pointer("5")}, Key{"INDEX", []string{"a"}}},
	} {
		lines, err := MySQLShape([]Definition{source.column}, []Key{source.key})
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(lines, is) {
			t.Errorf("another %s is taken for %q", name, is)
		}
	}
}
