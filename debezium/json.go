package debezium

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// maxDepth bounds how deep arrays and objects may nest. Debezium's own records need less than ten levels: the JSON of
// a JSON column is a string.
const maxDepth = 64

// A cursor reads one JSON text from its beginning to its end. It is strict where encoding/json is: RFC 8259 without
// extensions; and stricter in one thing: text that is not UTF-8, and escapes that are half of a surrogate pair, are
// errors, where encoding/json puts U+FFFD in their place and so changes data.
type cursor struct {
	data []byte
	at   int
}

// syntaxError says what is wrong with a JSON text, and where.
type syntaxError struct {
	At   int // byte offset
	What string
}

func (e *syntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.What, e.At) }

func (c *cursor) fail(what string) error { return &syntaxError{c.at, what} }

// unexpected is the error for a byte that may not be here.
func (c *cursor) unexpected(want string) error {
	if c.at >= len(c.data) {
		return c.fail("the JSON ends where " + want + " is due")
	}
	return c.fail(fmt.Sprintf("%q where %s is due", c.data[c.at], want))
}

// peek returns the next byte, or 0, which no JSON text can hold outside of its strings, at the end.
func (c *cursor) peek() byte {
	if c.at < len(c.data) {
		return c.data[c.at]
	}
	return 0
}

func (c *cursor) space() {
	for c.at < len(c.data) {
		switch c.data[c.at] {
		case ' ', '\n', '\r', '\t':
			c.at++
		default:
			return
		}
	}
}

// has moves over s if it comes next.
func (c *cursor) has(s string) bool {
	if len(c.data)-c.at >= len(s) && string(c.data[c.at:c.at+len(s)]) == s {
		c.at += len(s)
		return true
	}
	return false
}

// end checks that nothing but space is left.
func (c *cursor) end() error {
	c.space()
	if c.at < len(c.data) {
		return c.unexpected("the end of the JSON")
	}
	return nil
}

// open moves over b, which opens an array or an object, and reports whether it is empty (then also over its end).
func (c *cursor) open(b, end byte) (empty bool, err error) {
	if c.peek() != b {
		return false, c.unexpected(string(rune(b)))
	}
	c.at++
	c.space()
	if c.peek() == end {
		c.at++
		return true, nil
	}
	return false, nil
}

// follows moves over a comma and over token, the beginning of an object's member, if they come next.
func (c *cursor) follows(token string) bool {
	rest := c.data[c.at:]
	if len(rest) > len(token) && token != "" && rest[0] == ',' && string(rest[1:1+len(token)]) == token {
		c.at += 1 + len(token)
		return true
	}
	return false
}

// more moves over what follows an element: a comma, then there is another one, or end.
func (c *cursor) more(end byte) (bool, error) {
	b := c.peek()
	if b <= ' ' {
		c.space()
		b = c.peek()
	}
	switch b {
	case ',':
		c.at++
		if c.peek() <= ' ' {
			c.space()
		}
		return true, nil
	case end:
		c.at++
		return false, nil
	}
	return false, c.unexpected("a comma or " + string(rune(end)))
}

// colon moves over the colon after a member's name.
func (c *cursor) colon() error {
	c.space()
	if c.peek() != ':' {
		return c.unexpected("a colon")
	}
	c.at++
	c.space()
	return nil
}

// raw moves over a string and returns what is between its quotes. If escaped, it must go through unescape.
func (c *cursor) raw() (text []byte, escaped bool, err error) {
	if c.peek() != '"' {
		return nil, false, c.unexpected("a string")
	}
	start := c.at + 1
	i, data, ascii := start, c.data, true
	for {
		i += plain(data[i:])
		if i >= len(data) {
			return nil, false, c.fail("a string that does not end")
		}
		switch b := data[i]; {
		case b == '"':
			text, c.at = data[start:i], i+1
			if !ascii && !utf8.Valid(text) {
				c.at = start - 1
				return nil, false, c.fail("a string that is not UTF-8")
			}
			return text, escaped, nil
		case b == '\\':
			n := escape(data[i:])
			if n == 0 {
				c.at = i
				return nil, false, c.fail("an escape that JSON does not know")
			}
			escaped = true
			i += n
		case b < ' ':
			c.at = i
			return nil, false, c.fail("a control character in a string")
		default:
			ascii = false
			for i < len(data) && data[i] >= utf8.RuneSelf {
				i++
			}
		}
	}
}

// plain counts the bytes that b begins with that stand for themselves: ASCII, no quote, backslash or control character.
func plain(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, slash := w^(ones*'"'), w^(ones*'\\')
		// In each term the high bit of a byte is set if the byte is one that is looked for. It may also be set above
		// such a byte, by a borrow, but never below the first one.
		special := ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w | w) & highs
		if special != 0 {
			return i + bits.TrailingZeros64(special)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			break
		}
	}
	return i
}

// skip moves over one value of any kind.
func (c *cursor) skip(depth int) error {
	switch b := c.peek(); b {
	case '"':
		_, _, err := c.raw()
		return err
	case '{':
		return c.skipObject(depth)
	case '[':
		return c.skipArray(depth)
	case 't', 'f', 'n':
		return c.literal()
	default:
		_, _, err := c.number()
		return err
	}
}

func (c *cursor) skipObject(depth int) error {
	if depth >= maxDepth {
		return c.fail("objects nested too deep")
	}
	empty, err := c.open('{', '}')
	for more := !empty; more && err == nil; {
		if _, _, err = c.raw(); err != nil {
			return err
		}
		if err = c.colon(); err != nil {
			return err
		}
		if err = c.skip(depth + 1); err != nil {
			return err
		}
		more, err = c.more('}')
	}
	return err
}

func (c *cursor) skipArray(depth int) error {
	if depth >= maxDepth {
		return c.fail("arrays nested too deep")
	}
	empty, err := c.open('[', ']')
	for more := !empty; more && err == nil; {
		if err = c.skip(depth + 1); err != nil {
			return err
		}
		more, err = c.more(']')
	}
	return err
}

// literal moves over true, false or null.
func (c *cursor) literal() error {
	if c.has("null") || c.has("true") || c.has("false") {
		return nil
	}
	return c.unexpected("a value")
}

// number moves over a number. If it is written as an integer and fits, integer is true and n its value; -0 does not
// count: the sign would be lost.
func (c *cursor) number() (n int64, integer bool, err error) {
	first := c.at
	negative := c.peek() == '-'
	if negative {
		first++
	}
	u, end := digits(c.data, first)
	switch {
	case end == first:
		c.at = end
		return 0, false, c.unexpected("a value")
	case end > first+1 && c.data[first] == '0':
		return 0, false, c.fail("a number with a leading zero")
	}
	c.at = end
	if b := c.peek(); b == '.' || b|0x20 == 'e' {
		return 0, false, c.fraction()
	}
	switch {
	case end-first > maxDigits, negative && u == 0, !negative && u > 1<<63-1, u > 1<<63:
		return 0, false, nil
	case negative:
		return -int64(u), true, nil // also for 1<<63, which is its own negative
	}
	return int64(u), true, nil
}

// maxDigits is how many digits a uint64 has room for, whatever they are.
const maxDigits = 19

// digits reads the digits that b has from i on, and returns where they end. After more than maxDigits the number is not
// theirs.
func digits(b []byte, i int) (u uint64, end int) {
	for ; len(b)-i >= 8; i += 8 { // most numbers of an envelope are times, of 13 to 19 digits
		eight, ok := eightDigits(binary.LittleEndian.Uint64(b[i:]))
		if !ok {
			break
		}
		u = u*100_000_000 + eight
	}
	for ; i < len(b) && b[i]-'0' <= 9; i++ {
		u = u*10 + uint64(b[i]-'0')
	}
	return u, i
}

// eightDigits reads eight digits, the first one in the lowest byte: neighbours are joined to pairs, then fours.
func eightDigits(w uint64) (n uint64, ok bool) {
	const zeros, sixes, highs = 0x3030303030303030, 0x0606060606060606, 0xf0f0f0f0f0f0f0f0
	if w&highs != zeros || (w+sixes)&highs != zeros {
		return 0, false
	}
	w -= zeros
	w = w*10 + w>>8
	const fours = 0x000000ff000000ff
	return (w&fours*(100+1_000_000<<32) + w>>16&fours*(1+10_000<<32)) >> 32, true
}

// fraction moves over what may follow the integer part of a number.
func (c *cursor) fraction() error {
	if c.peek() == '.' {
		c.at++
		if !c.someDigits() {
			return c.unexpected("a digit")
		}
	}
	if c.peek()|0x20 == 'e' {
		c.at++
		if b := c.peek(); b == '+' || b == '-' {
			c.at++
		}
		if !c.someDigits() {
			return c.unexpected("a digit")
		}
	}
	return nil
}

func (c *cursor) someDigits() bool {
	start := c.at
	_, c.at = digits(c.data, start)
	return c.at > start
}

// escape is the length of the escape that b begins with, 0 for none that JSON knows.
func escape(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b); ok {
			return 6
		}
	}
	return 0
}

var errSurrogate = errors.New("an escape that is half of a surrogate pair")

// unescape appends s, which [cursor.raw] has read, without its escapes to dst: never more bytes than s has.
func unescape(dst, s []byte) ([]byte, error) {
	for i := 0; i < len(s); {
		if s[i] != '\\' {
			n := plain(s[i:])
			for i+n < len(s) && s[i+n] != '\\' {
				n++
			}
			dst = append(dst, s[i:i+n]...)
			i += n
			continue
		}
		switch b := s[i+1]; b {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r, n, err := unescapeRune(s[i:])
			if err != nil {
				return dst, err
			}
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		default: // a quote, a backslash or a slash
			dst = append(dst, b)
		}
		i += 2
	}
	return dst, nil
}

// unescapeRune reads the \u escape, or the pair of them, that s begins with, and returns its length.
func unescapeRune(s []byte) (r rune, n int, err error) {
	r, _ = hex4(s)
	if !utf16.IsSurrogate(r) {
		return r, 6, nil
	}
	low, ok := hex4(s[6:])
	if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
		return 0, 0, errSurrogate
	}
	return r, 12, nil
}

// hex4 reads \uXXXX.
func hex4(s []byte) (r rune, ok bool) {
	if len(s) < 6 || s[0] != '\\' || s[1] != 'u' {
		return 0, false
	}
	for _, b := range s[2:6] {
		var d byte
		switch {
		case b-'0' <= 9:
			d = b - '0'
		case b|0x20 >= 'a' && b|0x20 <= 'f':
			d = b | 0x20 - 'a' + 10
		default:
			return 0, false
		}
		r = r<<4 | rune(d)
	}
	return r, true
}

// text makes a string of b without a copy. Nothing may write to b afterwards.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
