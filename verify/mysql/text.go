package mysql

import (
	"fmt"
	"strings"

	"replicator/schema"
	"replicator/verify"
)

// Quote implements [verify.Side].
func (d *DB) Quote(ident string) string { return "`" + strings.ReplaceAll(ident, "`", "``") + "`" }

// Hash implements [verify.Side].
func (d *DB) Hash(text string) string { return "SHA2(" + text + ",256)" }

// Number implements [verify.Side].
func (d *DB) Number(hash string) string { return "CAST(CONV(LEFT(" + hash + ",15),16,10) AS UNSIGNED)" }

// Text implements [verify.Side].
func (d *DB) Text(c schema.Column, f verify.Form) string {
	q := d.Quote(c.Name)
	number := q
	if c.Type.Kind == schema.Bit || strings.Contains(strings.ToLower(c.Type.Native), "zerofill") {
		number = "(" + q + "+0)"
	}
	switch f {
	case verify.Integer:
		if c.Type.Kind == schema.Year {
			return chars("IF(" + q + "=0,2000," + q + "+0)") // Debezium has no year 0, and sends 2000
		}
		return chars(number)
	case verify.Truth:
		return chars("(" + number + "<>0)")
	case verify.Decimal:
		return chars(number)
	case verify.Trimmed:
		n := chars(number)
		return "IF(LOCATE('.'," + n + ")>0,TRIM(TRAILING '.' FROM TRIM(TRAILING '0' FROM " + n + "))," + n + ")"
	case verify.Float:
		if c.Type.Kind == schema.Float32 { // which is written with six digits
			number = "CAST(" + q + " AS DOUBLE)"
		}
		return "IF(" + number + "=0,'0'," + chars(number) + ")"
	case verify.Bits:
		return fmt.Sprintf("LPAD(BIN(%s),%d,'0')", number, max(c.Type.Length, 1))
	case verify.Date:
		return dated(q, c, chars(q), "1970-01-01")
	case verify.Instant:
		return dated(q, c, "DATE_FORMAT("+q+",'%Y-%m-%d %H:%i:%s.%f')", "1970-01-01 00:00:00.000000")
	case verify.Micros:
		return chars(strings.ReplaceAll("IF(LEFT(CAST({} AS CHAR),1)='-',-1,1)*(HOUR({})*3600000000+MINUTE({})*60000000+SECOND({})*1000000+MICROSECOND({}))", "{}", q))
	case verify.Text, verify.Blank, verify.Members:
		return d.utf8(q, f)
	case verify.Hex, verify.Shape, verify.Floats:
		return "LOWER(HEX(" + q + "))"
	}
	return chars(q)
}

func chars(s string) string { return "CAST(" + s + " AS CHAR)" }

// dated is text, but for dates that are none: Debezium sends null for 0000-00-00 and for days of month 0, and in a column that
// cannot be null, the epoch.
func dated(q string, c schema.Column, text, epoch string) string {
	otherwise := "NULL"
	if c.NotNull {
		otherwise = "'" + epoch + "'"
	}
	return "IF(MONTH(" + q + ")=0 OR DAYOFMONTH(" + q + ")=0," + otherwise + "," + text + ")"
}

// utf8 is a text as the pipeline stores it.
func (d *DB) utf8(q string, f verify.Form) string {
	text := "CONVERT(" + q + " USING utf8mb4)"
	switch d.nul {
	case "strip":
		text = "REPLACE(" + text + ",CHAR(0 USING utf8mb4),'')"
	case "replace":
		text = "REPLACE(" + text + ",CHAR(0 USING utf8mb4),_utf8mb4 0xEFBFBD)"
	}
	if f == verify.Blank {
		text = "RTRIM(" + text + ")"
	}
	return text
}
