package debezium

import (
	"fmt"
	"strings"
	"unicode/utf16"
)

// AvroName is the name that Debezium gives a column, a table's topic or a schema in a format whose names have only
// letters, digits and underscores of ASCII (options field.name.adjustment.mode and schema.name.adjustment.mode, avro):
// another character becomes an underscore, and a digit at the beginning gets one before it. With dots, dots may stay.
func AvroName(name string, dots bool) string {
	return adjusted(name, func(b *strings.Builder, c uint16) {
		if c == '.' && dots || c == '_' {
			b.WriteByte(byte(c))
		} else {
			b.WriteByte('_')
		}
	})
}

// AvroUnicodeName is [AvroName] in the mode avro_unicode: another character, and the underscore itself, becomes _u and
// four hexadecimal digits.
func AvroUnicodeName(name string) string {
	return adjusted(name, func(b *strings.Builder, c uint16) { fmt.Fprintf(b, "_u%04x", c) })
}

// adjusted writes the characters, Java's of 16 bits, that may not be in a name, and the underscore, as replace does.
func adjusted(name string, replace func(b *strings.Builder, c uint16)) string {
	var b strings.Builder
	for i, c := range utf16.Encode([]rune(name)) {
		digit := c >= '0' && c <= '9'
		switch {
		case digit && i == 0:
			b.WriteByte('_')
			b.WriteByte(byte(c))
		case digit, c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
			b.WriteByte(byte(c))
		default:
			replace(&b, c)
		}
	}
	return b.String()
}
