package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"replicator/schema"
	"replicator/sqlgen"
)

// Table reads a table's shape. Its name comes back with the database in which it was found.
func (s *Sink) Table(ctx context.Context, name schema.Name) (*schema.Table, error) {
	if strings.ContainsFunc(name.Schema+name.Table, func(r rune) bool { return r > 0xffff }) {
		return nil, permanent("table %s: %s", name, adviceCharacters) // the catalog cannot be asked for it
	}
	t, err := s.readTable(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("read table %s from the catalog: %w", name, plain(err))
	}
	return t, nil
}

func (s *Sink) readTable(ctx context.Context, name schema.Name) (*schema.Table, error) {
	const query = `SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, COALESCE(ENGINE, ''), TABLE_COMMENT, COALESCE(TABLE_COLLATION, '') FROM information_schema.TABLES
WHERE TABLE_SCHEMA = COALESCE(NULLIF(?, ''), DATABASE()) AND TABLE_NAME = ?`
	t := &schema.Table{Name: name}
	var kind, engine, collation string
	err := s.control.QueryRowContext(ctx, query, name.Schema, name.Table).Scan(&t.Name.Schema, &t.Name.Table, &kind, &engine, &t.Comment, &collation)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, nil
	case err != nil:
		return nil, err
	case kind != "BASE TABLE":
		return nil, permanent("%s is not a table, and only a table can be a target", t.Name)
	case !strings.EqualFold(engine, "InnoDB"):
		return nil, permanent("%s has the engine %s, whose rows no transaction holds back: ALTER TABLE %s ENGINE = InnoDB", t.Name, engine, t.Name)
	}
	hidden, err := s.readColumns(ctx, t, collation)
	if err != nil {
		return nil, err
	}
	if err := s.readIndexes(ctx, t, hidden); err != nil {
		return nil, err
	}
	return t, s.readReferences(ctx, t)
}

// generatedKey is the invisible primary key that sql_generate_invisible_primary_key adds to a table without one.
const generatedKey = "my_row_id"

// readColumns reads columns, of a table with this collation. hidden says that there is a generatedKey, which is left out: the table has
// no key of its own.
func (s *Sink) readColumns(ctx context.Context, t *schema.Table, collation string) (hidden bool, err error) {
	const query = `SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE = 'NO', COLUMN_DEFAULT, EXTRA, COLUMN_COMMENT, COALESCE(GENERATION_EXPRESSION, '') <> '',
	COALESCE(NULLIF(COLLATION_NAME, ?), '')
FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`
	rows, err := s.control.QueryContext(ctx, query, collation, t.Name.Schema, t.Name.Table)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var c schema.Column
		var columnType, extra string
		var def sql.NullString
		if err := rows.Scan(&c.Name, &columnType, &c.NotNull, &def, &extra, &c.Comment, &c.Generated, &c.Collation); err != nil {
			return false, err
		}
		extra = strings.ToLower(extra)
		if c.Name == generatedKey && strings.Contains(extra, "invisible") {
			hidden = true
			continue
		}
		c.Type = sqlgen.MySQLType(columnType)
		c.AutoIncrement = strings.Contains(extra, "auto_increment")
		c.OnUpdate, c.Invisible = strings.Contains(extra, "on update"), strings.Contains(extra, "invisible")
		// MariaDB writes a nullable column without a default as one with the default NULL, as an expression.
		if def.Valid && !c.Generated && (!s.facts.mariaDB || def.String != "NULL") {
			c.Default = &def.String
		}
		t.Columns = append(t.Columns, c)
	}
	return hidden, rows.Err()
}

// readIndexes reads the primary key and the other indexes, among them the unique ones of whole columns.
func (s *Sink) readIndexes(ctx context.Context, t *schema.Table, hidden bool) (err error) {
	const query = `SELECT INDEX_NAME, NON_UNIQUE = 0, INDEX_TYPE, COALESCE(COLUMN_NAME, ''), COALESCE(SUB_PART, 0), COALESCE(COLLATION, '') = 'D' FROM information_schema.STATISTICS
WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY INDEX_NAME, SEQ_IN_INDEX`
	rows, err := s.control.QueryContext(ctx, query, t.Name.Schema, t.Name.Table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var indexes []schema.Index
	for rows.Next() {
		var x schema.Index
		var part schema.IndexPart // without a column: an expression
		if err := rows.Scan(&x.Name, &x.Unique, &x.Special, &part.Column, &part.Length, &part.Descending); err != nil {
			return err
		}
		if n := len(indexes); n == 0 || indexes[n-1].Name != x.Name {
			x.Special = specialIndex(x.Special)
			indexes = append(indexes, x)
		}
		addPart(&indexes[len(indexes)-1], part)
	}
	for _, x := range indexes {
		if !slices.ContainsFunc(x.Parts, func(p schema.IndexPart) bool { return p != schema.IndexPart{Column: p.Column} }) {
			x.Parts = nil
		}
		switch {
		case x.Name == "PRIMARY" && hidden:
		case x.Name == "PRIMARY" && x.Special != "":
			s.config.Log.Warn("the primary key has a prefix of a column, so it cannot be used to find rows: set the table's key in the configuration",
				"table", t.Name.String())
		case x.Name == "PRIMARY":
			t.PrimaryKey = x.Columns
		default:
			t.Indexes = append(t.Indexes, x)
			if x.Unique && x.Special == "" {
				t.Unique = append(t.Unique, x.Columns)
			}
		}
	}
	return rows.Err()
}

// specialIndex is what an index of the catalog's type is besides a list of columns.
func specialIndex(indexType string) string {
	switch strings.ToUpper(indexType) {
	case "FULLTEXT":
		return "fulltext"
	case "SPATIAL", "RTREE":
		return "spatial"
	case "BTREE", "HASH":
		return ""
	}
	return strings.ToLower(indexType)
}

// addPart adds a column or an expression to an index. The catalog gives lengths to spatial ones, which have none.
func addPart(x *schema.Index, part schema.IndexPart) {
	switch {
	case part.Column == "":
		x.Special = "expression"
	case x.Special == "" && part.Length > 0:
		x.Special = "prefix"
	case x.Special != "prefix" && x.Special != "expression":
		part.Length = 0
	}
	if part.Column != "" {
		x.Columns = append(x.Columns, part.Column)
	}
	x.Parts = append(x.Parts, part)
}

func (s *Sink) readReferences(ctx context.Context, t *schema.Table) (err error) {
	const query = `SELECT DISTINCT REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE
WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? AND REFERENCED_TABLE_NAME IS NOT NULL
	AND NOT (REFERENCED_TABLE_SCHEMA = TABLE_SCHEMA AND REFERENCED_TABLE_NAME = TABLE_NAME)
ORDER BY 1, 2`
	rows, err := s.control.QueryContext(ctx, query, t.Name.Schema, t.Name.Table)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var name schema.Name
		if err := rows.Scan(&name.Schema, &name.Table); err != nil {
			return err
		}
		t.References = append(t.References, name)
	}
	return rows.Err()
}
