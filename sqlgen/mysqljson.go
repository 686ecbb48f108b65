package sqlgen

import (
	"errors"
	"strconv"
	"strings"

	"replicator/debezium"
)

// json encodes for MySQL's JSON, which keeps numbers that are no 64-bit integers as doubles, and rounds them to such without a word.
// (MariaDB's is text.)
func (e *mysqlEncoder) json() Encoder {
	write := e.appendJSONText
	switch e.m.sense {
	case senseArray:
		write = e.array()
	case senseJSON, senseText, senseAny, senseMap, senseStruct, senseInt, senseFloat, senseBool:
	default:
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		from := len(dst)
		dst, err := write(dst, v)
		if err == nil {
			err = checkJSONNumbers(string(dst[from:]))
		}
		return dst, err
	}
}

// array writes a list as JSON whose elements are values: 1.50 and 2024-02-29, and not in what these are sent.
func (e *mysqlEncoder) array() appender {
	list := &jsonEncoder{encoding: e.encoding}
	return list.array()
}

var errJSONNumber = errors.New("the JSON holds a number of more digits than a double has, in which MySQL keeps it; a column of text holds it")

// checkJSONNumbers refuses numbers that lose digits. What is no JSON is left to the server to refuse.
func checkJSONNumbers(doc string) error {
	for i := 0; i < len(doc); {
		switch b := doc[i]; {
		case b == '"':
			for i++; i < len(doc) && doc[i] != '"'; i++ {
				if doc[i] == '\\' {
					i++
				}
			}
			i++
		case b == '-' || b >= '0' && b <= '9':
			n := len(doc[i:]) - len(strings.TrimLeft(doc[i:], "+-.0123456789eE"))
			if !keptInJSON(doc[i : i+n]) {
				return &ValueError{Class: OutOfRange, Err: errJSONNumber}
			}
			i += n
		default:
			i++
		}
	}
	return nil
}

// doubleDigits is how many digits tell any double from all others.
const doubleDigits = 17

// keptInJSON says whether MySQL keeps all digits of a JSON number.
func keptInJSON(number string) bool {
	if len(number) <= doubleDigits {
		return true
	}
	if _, err := strconv.ParseInt(number, 10, 64); err == nil {
		return true
	}
	if _, err := strconv.ParseUint(number, 10, 64); err == nil {
		return true
	}
	d, ok := parseDecimal(number)
	return !ok || len(strings.TrimRight(d.digits, "0")) <= doubleDigits
}
