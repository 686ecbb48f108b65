package mysql

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"syscall"

	"github.com/go-sql-driver/mysql"

	"replicator/schema"
	"replicator/sqlgen"
	"replicator/txnsink"
)

// Error numbers that are branched on. See the reference manuals' lists of server error messages.
const (
	errCannotCreate      = 1005
	errEngine            = 1030
	errShutdown          = 1053
	errDuplicate         = 1062
	errSyntax            = 1064
	errNoSuchThread      = 1094
	errNotOwner          = 1095
	errPacketTooLarge    = 1153
	errTableDenied       = 1142
	errColumnDenied      = 1143
	errNoSuchTable       = 1146
	errTableExists       = 1050
	errNoColumn          = 1054
	errColumnExists      = 1060
	errIndexExists       = 1061
	errSecondKey         = 1068
	errCannotDrop        = 1091
	errTooManyColumns    = 1117
	errNoIndex           = 1176
	errRowTooLarge       = 1118
	errLockWait          = 1205
	errDeadlock          = 1213
	errReadOnlyOption    = 1290 // read_only, super_read_only
	errInterrupted       = 1317
	errXAUnknown         = 1397 // XAER_NOTA
	errXAState           = 1399 // XAER_RMFAIL
	errXARecover         = 1401 // XAER_RMERR: XA RECOVER without the privilege
	errXARolledBack      = 1402 // XA_RBROLLBACK
	errXARollbackTimeout = 1613 // XA_RBTIMEOUT
	errXARollbackLock    = 1614 // XA_RBDEADLOCK
	errXADuplicate       = 1440 // XAER_DUPID
	errRaised            = 1644 // SIGNAL of a trigger
	errBinlogFormat      = 1665 // READ COMMITTED with binlog_format STATEMENT
	errBadCharacters     = 1300 // ER_INVALID_CHARACTER_STRING
	errNoSuchCharacters  = 3854 // ER_CANNOT_CONVERT_STRING
	errKilled            = 1927 // MariaDB: connection was killed

	adviceTLS        = "see to target.tls: ca must be the file of the authority that signed the server's certificate, server_name the name that it is for, and the server one that has TLS"
	adviceCharacters = "identifiers of MySQL and MariaDB have none beyond U+FFFF; give the table another name by a rule's target, or the column by its columns.rename"
	adviceOnePhase   = "or set delivery to one-phase, which needs no prepared transactions"
)

// permanentError is an error that trying again brings again.
type permanentError struct{ text string }

func (e *permanentError) Error() string   { return e.text }
func (e *permanentError) Permanent() bool { return true }

func permanent(format string, args ...any) error {
	return &permanentError{fmt.Sprintf(format, args...)}
}

// number returns that of a server's error, or 0.
func number(err error) uint16 {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return e.Number
	}
	return 0
}

// sqlClass returns the first two characters of a server's error's SQLSTATE, or "".
func sqlClass(err error) string {
	var e *mysql.MySQLError
	if errors.As(err, &e) {
		return string(e.SQLState[:2])
	}
	return ""
}

// lost says whether the session is gone: the connection broke, or somebody killed it.
func lost(err error) bool {
	switch number(err) {
	case 0, errShutdown, errInterrupted, errKilled:
		return true
	}
	return false
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
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		var certificate *tls.CertificateVerificationError
		if errors.As(err, &certificate) || errors.Is(err, mysql.ErrNoTLS) {
			return permanent("tls_configuration: %v: %s", err, adviceTLS)
		}
		out := &serverError{text: unreachable(err)}
		for _, cause := range []error{context.Canceled, context.DeadlineExceeded} {
			if errors.Is(err, cause) {
				out.cause = cause
			}
		}
		return out
	}
	text := message(e)
	switch e.Number {
	case errNoSuchTable:
		if strings.Contains(e.Message, ".replicator_") {
			return permanent("%s: the replicator's own tables are missing: run `replicator migrate up`", text)
		}
	case 1044, 1045, 1049, 1142, 1143, 1227, 1370: // access denied in its forms, no such database
		return permanent("%s: see to user, password and database in the URL, and to the user's grants", text)
	case errBadCharacters, errNoSuchCharacters:
		return permanent("%s: %s", text, adviceCharacters)
	case errReadOnlyOption:
		return &serverError{text: text + ": is the target a replica?"}
	case errLockWait:
		return &serverError{text: text + ": another session holds the rows or the table, or FLUSH TABLES WITH READ LOCK is at work"}
	case errBinlogFormat:
		return permanent("%s: set binlog_format to ROW or MIXED on the target", text)
	case errPacketTooLarge:
		return &serverError{text: text + ": raise max_allowed_packet on the target"}
	}
	return &serverError{text: text}
}

// unreachable says of an error that is no server's, where it is that no connection was made, where, and what to look at.
func unreachable(err error) string {
	var (
		dial *net.OpError
		dns  *net.DNSError
	)
	switch {
	case errors.As(err, &dns):
		return dns.Name + ": " + dns.Err + ": see to the host in the URL"
	case errors.As(err, &dial) && dial.Op == "dial" && dial.Addr != nil && errors.Is(err, syscall.ECONNREFUSED):
		return dial.Addr.String() + ": connection refused: is the server running, and are host and port of the URL its own?"
	}
	return err.Error()
}

// Where names are in the messages of data errors. What stands between other quotes may be a row's value.
var (
	columnText = regexp.MustCompile("(?:column|Column|Field) (?:`[^`]*`\\.)*['`]([^'`]*)['`][^'`]*$")
	keyText    = regexp.MustCompile("for key '([^']*)'$")
	checkText  = regexp.MustCompile("^(?:Check constraint|CONSTRAINT) ['`]([^'`]*)['`]")
)

// message returns a server's message with its number, and without what may be a row's value.
func message(e *mysql.MySQLError) string {
	text := e.Message
	_, guard := sqlgen.MySQLGuards[e.Number]
	switch {
	case e.Number == errTooManyColumns || e.Number == errRowTooLarge: // they quote no value
	case e.Number == errSyntax:
		text = "a statement has a syntax error"
	case e.Number == errRaised:
		text = "a trigger raised an error"
	case e.Number == errBadCharacters, e.Number == errNoSuchCharacters:
		text = "a text has characters that the place where it goes has not"
	case guard:
		text = "the statement stopped itself"
	case dataNumber(e):
		text = string(class(e.Number))
		for what, re := range map[string]*regexp.Regexp{"column": columnText, "key": keyText, "constraint": checkText} {
			if m := re.FindStringSubmatch(e.Message); m != nil {
				text += fmt.Sprintf(", %s %s", what, m[1])
			}
		}
	}
	return fmt.Sprintf("%s (error %d)", text, e.Number)
}

// dataError says whether a statement failed because of a row's data.
func dataError(err error) bool {
	var e *mysql.MySQLError
	return errors.As(err, &e) && dataNumber(e)
}

// dataNumber says so of a server's error: by its SQLSTATE (21 cardinality, 22 data, 23 constraints), or by its number where the
// SQLSTATE is a general one.
func dataNumber(e *mysql.MySQLError) bool {
	if _, ok := sqlgen.MySQLGuards[e.Number]; ok {
		return true
	}
	switch e.Number {
	case errTooManyColumns, errRowTooLarge, errBadCharacters, errNoSuchCharacters, 1265, 1364, 1366, 1416, 1525, 1526, errRaised, 3819, 3140, 4025, 6136:
		return true
	}
	switch string(e.SQLState[:2]) {
	case "21", "22", "23":
		return true
	}
	return false
}

// rowError makes a data error one about a row.
func rowError(err error, table schema.Name, origin sqlgen.Origin) *sqlgen.RowError {
	out := &sqlgen.RowError{Class: sqlgen.InvalidValue, Table: table, Origin: origin, Err: err}
	var e *mysql.MySQLError
	if !errors.As(err, &e) {
		return out
	}
	out.Class, out.Err = class(e.Number), errors.New(message(e))
	if m := columnText.FindStringSubmatch(e.Message); m != nil {
		out.Column = m[1]
	}
	return out
}

// class returns what kind of a data error a number is.
func class(n uint16) sqlgen.Class {
	if c, ok := sqlgen.MySQLGuards[n]; ok {
		return c
	}
	switch n {
	case errDuplicate, 1169, 1586:
		return sqlgen.UniqueViolation
	case 1048, 1364:
		return sqlgen.NotNullViolation
	case 1264:
		return sqlgen.OutOfRange
	case 1406, errRowTooLarge:
		return sqlgen.TooLarge
	case 1216, 1217, 1451, 1452:
		return sqlgen.ForeignKey
	case 3819, 4025, errRaised:
		return sqlgen.CheckViolation
	}
	return sqlgen.InvalidValue
}
