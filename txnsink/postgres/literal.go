package postgres

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"replicator/sqlgen"
)

// Text returns a statement with its arguments as literals, for people. The server writes them: it is asked, and nothing is changed.
func (s *Sink) Text(ctx context.Context, st *sqlgen.Statement) (string, error) {
	b := &pgconn.Batch{}
	for _, a := range st.Args {
		array, ok := a.(sqlgen.Array)
		if !ok {
			return "", fmt.Errorf("an argument of type %T of a statement on table %v", a, st.Table)
		}
		sql := fmt.Sprintf("SELECT quote_literal($1::text) || '::' || format_type(%d, NULL)", array.OID)
		b.ExecParams(sql, [][]byte{array.Data}, []uint32{array.OID}, []int16{pgx.BinaryFormatCode}, nil)
	}
	if len(st.Args) == 0 {
		return st.SQL, nil
	}
	var literals []string
	err := s.control(ctx, func(c *pgx.Conn) error {
		results, err := c.PgConn().ExecBatch(ctx, b).ReadAll()
		for _, r := range results {
			if r.Err == nil && len(r.Rows) == 1 {
				literals = append(literals, string(r.Rows[0][0]))
			}
		}
		return err
	})
	if err == nil && len(literals) != len(st.Args) {
		err = fmt.Errorf("the server wrote %d of %d values", len(literals), len(st.Args))
	}
	if err != nil {
		return "", fmt.Errorf("write a statement on table %v with its values: %w", st.Table, plain(err))
	}
	return withLiterals(st.SQL, literals), nil
}

// withLiterals puts literals in place of $1, $2 and so on, outside of quoted names and texts.
func withLiterals(sql string, literals []string) string {
	var b strings.Builder
	var quote byte
	for i := 0; i < len(sql); i++ {
		c := sql[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0 // a doubled one ends the text and begins it again
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '$':
			end := i + 1
			for end < len(sql) && sql[end] >= '0' && sql[end] <= '9' {
				end++
			}
			if n, err := strconv.Atoi(sql[i+1 : end]); err == nil && n >= 1 && n <= len(literals) {
				b.WriteString(literals[n-1])
				i = end - 1
				continue
			}
		}
		b.WriteByte(c)
	}
	return b.String()
}
