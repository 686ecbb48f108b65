package debezium

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// protoCursor reads a message in Protobuf's wire format. data ends where the message does; at counts from the beginning of the record's.
type protoCursor struct {
	data []byte
	at   int
}

func (c *protoCursor) fail(what string) error { return &syntaxError{c.at, what} }

func (c *protoCursor) more() bool { return c.at < len(c.data) }

// varint moves over a number.
func (c *protoCursor) varint() (uint64, error) {
	if c.at < len(c.data) && c.data[c.at] < 0x80 {
		c.at++
		return uint64(c.data[c.at-1]), nil
	}
	u, n := protowire.ConsumeVarint(c.data[c.at:])
	if n < 0 {
		return 0, c.fail("a number that does not end, or has more than 64 bits,")
	}
	c.at += n
	return u, nil
}

// tag moves over a field's number and the type of what follows.
func (c *protoCursor) tag() (protowire.Number, protowire.Type, error) {
	at := c.at
	u, err := c.varint()
	if err != nil {
		return 0, 0, err
	}
	num, wire := protowire.DecodeTag(u)
	if !num.IsValid() {
		return 0, 0, &syntaxError{at, "no field's number"}
	}
	return num, wire, nil
}

// bytes moves over a length and as many bytes.
func (c *protoCursor) bytes() ([]byte, error) {
	at := c.at
	n, err := c.varint()
	if err != nil {
		return nil, err
	}
	if left := len(c.data) - c.at; n > uint64(left) {
		return nil, &syntaxError{at, fmt.Sprintf("a length of %d where %d bytes are left", n, left)}
	}
	c.at += int(n)
	return c.data[c.at-int(n) : c.at], nil
}

// inner moves over a length and returns a cursor at the message that has it.
func (c *protoCursor) inner() (protoCursor, error) {
	b, err := c.bytes()
	return protoCursor{c.data[:c.at], c.at - len(b)}, err
}

// skip moves over a value of a field that is not read.
func (c *protoCursor) skip(num protowire.Number, wire protowire.Type) error {
	n := protowire.ConsumeFieldValue(num, wire, c.data[c.at:])
	if n < 0 {
		return c.fail(fmt.Sprintf("no value of field number %d", num))
	}
	c.at += n
	return nil
}
