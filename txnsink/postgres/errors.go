package postgres

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// SQLSTATE codes that are branched on. See PostgreSQL's documentation, appendix A.
const (
	codeLockTimeout        = "55P03" // lock_not_available
	codeNotInState         = "55000" // object_not_in_prerequisite_state: a prepared transaction that is busy, or prepared transactions are disabled
	codeUndefinedObject    = "42704" // no such prepared transaction
	codeDuplicateObject    = "42710" // the name of a prepared transaction, or of a type, is taken
	codeOutOfMemory        = "53200" // no free slot for a prepared transaction, or for a lock
	codePrivilege          = "42501" // insufficient_privilege
	codeUnencodable        = "22021" // character_not_in_repertoire
	codeNotSupported       = "0A000" // feature_not_supported
	codeUndefinedStatement = "26000" // invalid_sql_statement_name: a prepared statement that is not there
	codeDuplicateTable     = "42P07"
	codeUndefinedTable     = "42P01"
	codeUndefinedSchema    = "3F000"
	codeUndefinedDatabase  = "3D000" // invalid_catalog_name
	codeRefusedRole        = "28000" // invalid_authorization_specification: no such role, or nothing in pg_hba.conf lets it in
	codeRefusedPassword    = "28P01"
	codeUniqueViolation    = "23505"
	codeDatatypeMismatch   = "42804"
	codeCardinality        = "21000" // one statement would change a row twice
	codeRaiseException     = "P0001" // a trigger's own error
	codeReadOnly           = "25006" // read_only_sql_transaction
	codeDependent          = "2BP01" // dependent_objects_still_exist: a view, say, uses the column
	classData              = "22"
	classConstraint        = "23"
	classLimit             = "54" // program_limit_exceeded: a row, an index entry or a table that is larger than PostgreSQL's pages allow
	adviceOnePhase         = "or set delivery to one-phase, which is exactly once without prepared transactions"
	adviceTwoPhase         = "set max_prepared_transactions to at least twice the number of workers plus 2 in postgresql.conf and restart the server, "
	disabledTwoPhase       = "prepared transactions are disabled on the target (max_prepared_transactions is 0): " + adviceTwoPhase + adviceOnePhase
	refusedTLS             = "server refused TLS connection" // pgx has no type for it
	adviceTLS              = "see to the URL: sslmode must be one that the server serves, sslrootcert the file of the authority that signed its certificate, and the host one that the certificate is for"
	exhaustedTwoPhaseText  = "the target has no free slot for a prepared transaction: look into pg_prepared_xacts for forgotten ones, or " + adviceTwoPhase
)

// permanentError is an error that trying again brings again.
type permanentError struct{ text string }

func (e *permanentError) Error() string   { return e.text }
func (e *permanentError) Permanent() bool { return true }

func permanent(format string, args ...any) error {
	return &permanentError{fmt.Sprintf(format, args...)}
}

// code returns the SQLSTATE of a server's error, or "".
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// serverError is what a server said, without the driver's types and without row values.
type serverError struct {
	text  string
	cause error // context.Canceled or DeadlineExceeded, if that is what happened
}

func (e *serverError) Error() string { return e.text }
func (e *serverError) Unwrap() error { return e.cause }

// Plain returns err without the driver's types and without row values, for callers that do not know the driver.
// What trying again does not help is an error for which txnsink.Permanent is true. An error of this package comes back as it is.
func Plain(err error) error { return plain(err) }

func plain(err error) error {
	if txnsink.Permanent(err) { // this package's, or that of whoever reads what it brings
		return err
	}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if untrusted(err) {
			return permanent("tls_configuration: %s: %s", strings.Join(attempts(err), "; "), adviceTLS)
		}
		out := &serverError{text: unreachable(err)}
		for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
			if errors.Is(err, cause) {
				out.cause = cause
			}
		}
		return out
	}
	text := message(pg)
	if pg.Code == codeUndefinedTable || pg.Code == codeUndefinedSchema {
		if strings.Contains(pg.Message, `"replicator`) {
			return permanent("%s: the replicator's own tables are missing: run `replicator migrate up`", text)
		}
	}
	switch pg.Code {
	case codeRefusedRole, codeRefusedPassword:
		return &serverError{text: text + ": see to role and password in the URL, and to the server's pg_hba.conf"}
	case codeUndefinedDatabase:
		return &serverError{text: text + ": see to the database in the URL, or create it"}
	}
	if pg.Code == codeUnencodable {
		return permanent("%s: an identifier holds what the encoding of the database lacks", text) // values are a row's error
	}
	if pg.Code == codePrivilege {
		return permanent("%s: grant it to the target's role; replicator check and docs/grants.md say what else it needs", text)
	}
	if pg.Code == codeOutOfMemory {
		return &serverError{text: text + ": a transaction locks each table that it changes, and each index of it: if it is those that are too many, raise max_locks_per_transaction on the target, or lower checkpoint.rows"}
	}
	if pg.Code == codeReadOnly {
		return &serverError{text: text + ": is the target a standby?"}
	}
	return &serverError{text: text}
}

// message returns a server's message with its code, and without what may be a row's value: the Detail, and in the classes of data
// errors whatever is quoted.
func message(pg *pgconn.PgError) string {
	text := pg.Message
	switch {
	case pg.Code == codeRaiseException:
		text = "a trigger raised an exception"
	case strings.HasPrefix(pg.Code, classData):
		if i, j := strings.IndexByte(text, '"'), strings.LastIndexByte(text, '"'); i < j {
			text = text[:i] + "(a value)" + text[j+1:]
		}
		if i := strings.Index(text, ": 0x"); i >= 0 {
			text = text[:i]
		}
	}
	return fmt.Sprintf("%s (SQLSTATE %s)", text, pg.Code)
}

// dataError says whether a statement failed because of a row's data.
func dataError(err error) bool {
	c := code(err)
	switch c {
	case codeDatatypeMismatch, codeCardinality, codeRaiseException:
		return true
	}
	return strings.HasPrefix(c, classData) || strings.HasPrefix(c, classConstraint) || strings.HasPrefix(c, classLimit)
}

// rowError makes a data error one about a row.
func rowError(err error, table schema.Name, origin sqlgen.Origin) *sqlgen.RowError {
	out := &sqlgen.RowError{Class: sqlgen.InvalidValue, Table: table, Origin: origin, Err: err}
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		return out
	}
	out.Class, out.Column, out.Err = class(pg.Code), pg.ColumnName, errors.New(message(pg))
	if out.Class == sqlgen.NotNullViolation {
		out.Err = fmt.Errorf("%w; if the source has no such column, give it a default in the target or let it be NULL", out.Err)
	}
	return out
}

// class returns what kind of a data error a SQLSTATE is.
func class(code string) sqlgen.Class {
	switch code {
	case "22001", "54000":
		return sqlgen.TooLarge
	case "22003", "22008", "22015":
		return sqlgen.OutOfRange
	case codeUnencodable, "22P05":
		return sqlgen.Unstorable
	case "23502":
		return sqlgen.NotNullViolation
	case "23503":
		return sqlgen.ForeignKey
	case codeUniqueViolation, codeCardinality, "23P01":
		return sqlgen.UniqueViolation
	case "23514", codeRaiseException:
		return sqlgen.CheckViolation
	}
	return sqlgen.InvalidValue
}
