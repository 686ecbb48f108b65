package debezium

import (
	"encoding/json"
	"fmt"
	"strings"

	"replicator/schema"
)

// The structure of a schema-change record: Debezium's documentation, MySQL connector, "Schema change topic".
type (
	jsonChange struct {
		Type  string     `json:"type"`
		ID    string     `json:"id"`
		Table *jsonTable `json:"table"`
	}
	jsonTable struct {
		PrimaryKey []string     `json:"primaryKeyColumnNames"`
		Columns    []jsonColumn `json:"columns"`
		Comment    string       `json:"comment"`
	}
	jsonColumn struct {
		Name           string   `json:"name"`
		TypeName       string   `json:"typeName"`
		TypeExpression string   `json:"typeExpression"`
		Length         *int     `json:"length"`
		Scale          *int     `json:"scale"`
		Optional       *bool    `json:"optional"`
		AutoIncrement  bool     `json:"autoIncremented"`
		Generated      bool     `json:"generated"`
		Comment        string   `json:"comment"`
		Default        *string  `json:"defaultValueExpression"`
		Enum           []string `json:"enumValues"`
	}
)

// parseChange makes the change of a schema-change record's members; changes is JSON whose syntax has been checked.
func parseChange(ddl string, changes []byte, connector string) (*Change, error) {
	c := &Change{DDL: strings.Clone(ddl)}
	var list []jsonChange
	if len(changes) > 0 {
		if err := json.Unmarshal(changes, &list); err != nil {
			return nil, fmt.Errorf("tableChanges: %w", err)
		}
	}
	for i := range list {
		t, err := list[i].change(connector)
		if err != nil {
			return nil, fmt.Errorf("tableChanges: %w", err)
		}
		c.Tables = append(c.Tables, t)
	}
	return c, nil
}

func (j *jsonChange) change(connector string) (TableChange, error) {
	parts, err := parseID(j.ID)
	if err != nil {
		return TableChange{}, err
	}
	t := TableChange{Type: j.Type, Table: parts[len(parts)-1]}
	switch {
	case len(parts) == 3:
		t.Database, t.Schema = parts[0], parts[1]
	case len(parts) == 2 && fromMySQL(connector):
		t.Database = parts[0]
	case len(parts) == 2:
		t.Schema = parts[0]
	}
	if j.Table == nil || j.Type == "DROP" {
		return t, nil
	}
	t.Shape = &schema.Table{
		Name:       schema.Name{Schema: t.Schema, Table: t.Table},
		PrimaryKey: j.Table.PrimaryKey,
		Comment:    j.Table.Comment,
		Columns:    make([]schema.Column, len(j.Table.Columns)),
	}
	if t.Schema == "" {
		t.Shape.Name.Schema = t.Database
	}
	for i := range j.Table.Columns {
		t.Shape.Columns[i] = j.Table.Columns[i].column(connector)
	}
	return t, nil
}

func (j *jsonColumn) column(connector string) schema.Column {
	c := schema.Column{
		Name:          j.Name,
		NotNull:       j.Optional != nil && !*j.Optional,
		AutoIncrement: j.AutoIncrement,
		// Debezium says generated for every column whose values the source makes, auto-increment among them; MySQL's
		// GENERATED ALWAYS columns it does not mark at all.
		Generated: j.Generated && !j.AutoIncrement,
		Default:   j.Default,
		Comment:   j.Comment,
	}
	if fromMySQL(connector) {
		c.Type = MySQLType(j.TypeName, j.TypeExpression, j.Length, j.Scale, j.Enum)
	} else {
		c.Type.Native = j.TypeExpression // the events' own schema knows better than a name of another dialect
		if c.Type.Native == "" {
			c.Type.Native = j.TypeName
		}
	}
	return c
}

func fromMySQL(connector string) bool { return connector == "mysql" || connector == "mariadb" }

// parseID splits a table's id: one to three parts in double quotes (a quote within is doubled) with dots between.
func parseID(id string) ([]string, error) {
	var parts []string
	for rest := id; ; {
		part, after, ok := quoted(rest)
		if !ok || len(parts) == 3 {
			return nil, fmt.Errorf("the table id %q is not of the form \"database\".\"table\"", id)
		}
		parts = append(parts, part)
		if after == "" {
			return parts, nil
		}
		if rest, ok = strings.CutPrefix(after, "."); !ok {
			return nil, fmt.Errorf("the table id %q is not of the form \"database\".\"table\"", id)
		}
	}
}

// quoted reads the quoted name that s begins with.
func quoted(s string) (name, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] != '"':
			b.WriteByte(s[i])
		case i+1 < len(s) && s[i+1] == '"':
			b.WriteByte('"')
			i++
		default:
			return b.String(), s[i+1:], true
		}
	}
	return "", "", false
}
