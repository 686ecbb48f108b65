package sqlgen

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"math/bits"

	"replicator/debezium"
	"replicator/schema"
)

// bitString is Debezium's io.debezium.data.Bits: bit 0 is the lowest of the first byte.
type bitString struct {
	bytes []byte
	n     int
}

// at returns bit i, 0 beyond the bytes that were sent.
func (b bitString) at(i int) byte {
	if i/8 >= len(b.bytes) {
		return 0
	}
	return b.bytes[i/8] >> (i % 8) & 1
}

// significant is the number of bits up to the highest that is set.
func (b bitString) significant() int {
	for i := len(b.bytes) - 1; i >= 0; i-- {
		if b.bytes[i] != 0 {
			return i*8 + bits.Len8(b.bytes[i])
		}
	}
	return 0
}

// littleEndian reads a bit string of n bits. Connectors pad with zero bytes; a bit that is set beyond n is an error.
func littleEndian(v *debezium.Value, n int) (bitString, error) {
	b := bitString{n: n}
	switch v.Kind {
	case debezium.BoolValue:
		b.bytes = []byte{byte(v.Num)}
	case debezium.BytesValue:
		b.bytes = []byte(v.Text)
	case debezium.StringValue:
		var ok bool
		if b.bytes, ok = fromBase64(nil, v.Text); !ok {
			return b, invalid("the bit string is not base64")
		}
	default:
		return b, wrongKind()
	}
	if s := b.significant(); s > n {
		return b, outOfRange("the bit string has %d bits, and the column's type holds %d", s, n)
	}
	return b, nil
}

// bits encodes for bit(n) and bit varying(n): a count and the bits, the first one highest (bit_recv in varbit.c).
func (e *pgEncoder) bits() Encoder {
	switch e.m.sense {
	case senseBits, senseBool, senseAny:
	default:
		return nil
	}
	fixed := e.column.Type.Kind == schema.Bit
	limit := e.column.Type.Length
	if fixed {
		limit = max(limit, 1)
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		most := limit
		if most == 0 {
			most = maxValue
		}
		b, err := littleEndian(v, most)
		if err != nil {
			return dst, err
		}
		if !fixed {
			b.n = e.length(b, most)
		}
		return appendBits(dst, b), nil
	}
}

// length is the number of bits to write into a bit varying of at most most: as many as the source's column has, where
// that is said. An unbounded source does not send its zeros in front, and says so with Java's largest int.
func (e *encoding) length(b bitString, most int) int {
	if e.m.sense == senseBits && e.m.bits > 0 && e.m.bits <= most && e.m.bits <= maxBits {
		return e.m.bits
	}
	return max(b.significant(), 1)
}

// maxBits bounds how far a bit string is padded. PostgreSQL's longest is 83886080 bits.
const maxBits = 83_886_080

func appendBits(dst []byte, b bitString) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(b.n))
	var x byte
	for i := range b.n {
		x = x<<1 | b.at(b.n-1-i)
		if i%8 == 7 {
			dst, x = append(dst, x), 0
		}
	}
	if rest := b.n % 8; rest > 0 {
		dst = append(dst, x<<(8-rest))
	}
	return dst
}

// sridFlag marks a well-known binary as extended by a reference system (PostGIS's EWKB).
const sridFlag = 0x20000000

// appendEWKB reads io.debezium.data.geometry.Geometry, {wkb, srid}, and appends PostGIS's EWKB, which is WKB itself
// where there is no SRID.
func appendEWKB(dst []byte, v *debezium.Value) ([]byte, error) {
	from := len(dst)
	if v.Kind == debezium.StringValue || v.Kind == debezium.BytesValue { // without a schema: bytes as they are
		return appendBytes(dst, v)
	}
	wkb, ok := member(v, "wkb")
	if !ok {
		return dst, invalid("the geometry is not a struct of wkb and srid")
	}
	dst, err := appendBytes(dst, wkb)
	if err != nil {
		return dst, err
	}
	srid, ok := member(v, "srid")
	if !ok || srid.Kind != debezium.IntValue || srid.Num == 0 {
		return dst, nil
	}
	g := dst[from:]
	if len(g) < 5 || g[0] > 1 || srid.Num < 0 || srid.Num > 1<<31-1 {
		return dst, invalid("the geometry is not well-known binary with a valid srid")
	}
	order := binary.AppendByteOrder(binary.BigEndian)
	byteOrder := binary.ByteOrder(binary.BigEndian)
	if g[0] == 1 {
		order, byteOrder = binary.LittleEndian, binary.LittleEndian
	}
	kind := byteOrder.Uint32(g[1:])
	if kind&sridFlag != 0 {
		return dst, nil
	}
	byteOrder.PutUint32(g[1:], kind|sridFlag)
	dst = order.AppendUint32(dst, uint32(srid.Num))
	g = dst[from:] // the srid was appended: move it behind the type
	var s [4]byte
	copy(s[:], g[len(g)-4:])
	copy(g[9:], g[5:len(g)-4])
	copy(g[5:], s[:])
	return dst, nil
}

// appendHexEWKB is appendEWKB as the text that PostGIS reads.
func appendHexEWKB(dst []byte, v *debezium.Value) ([]byte, error) {
	b, err := appendEWKB(nil, v)
	if err != nil {
		return dst, err
	}
	return hex.AppendEncode(dst, b), nil
}

// appendBase64 appends raw bytes as the text that every other format sends them in.
func appendBase64(dst []byte, raw string) []byte {
	return base64.StdEncoding.AppendEncode(dst, []byte(raw))
}
