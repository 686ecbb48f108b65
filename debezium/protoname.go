package debezium

import (
	"net/url"
	"strings"
)

// ProtobufName is the name that Confluent's Protobuf converter gives a column with its option scrub.invalid.names: what may not be in
// a Protobuf name is encoded as in a URL, whose other characters become underscores, and a digit or an underscore at the beginning gets an x
// before it.
func ProtobufName(name string) string {
	letters := func(c rune) rune {
		if c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' {
			return c
		}
		return -1
	}
	first := func(s string) bool { return s != "" && (s[0] >= '0' && s[0] <= '9' || s[0] == '_') }
	if strings.Map(letters, name) == name && !first(name) {
		return name
	}
	// Java leaves an asterisk as it is, and encodes a tilde; either becomes an underscore, the latter after it was %7E.
	encoded := strings.NewReplacer("%2A", "*", "~", "%7E").Replace(url.QueryEscape(name))
	if first(encoded) {
		encoded = "x" + encoded
	}
	return strings.Map(func(c rune) rune {
		if letters(c) < 0 {
			return '_'
		}
		return c
	}, encoded)
}

// Adjusts says whether field is what a column's name became on its way: Debezium's adjustments for Avro, in either of its modes, or
// the Protobuf converter's.
func Adjusts(column, field string) bool {
	return AvroName(column, false) == field || AvroUnicodeName(column) == field || ProtobufName(column) == field
}
