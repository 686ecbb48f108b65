package kafka

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"

	"github.com/segmentio/kafka-go/protocol"
)

// maxResponse bounds one response. A broker sends at most its fetch.max.bytes (55 MiB unless changed) and one batch more.
const maxResponse = 512 << 20

// call is one request to one broker, written and read by ourselves on a connection of the Transport. A call is used once:
// when its context ends early, the connection may still be reading into it.
type call struct {
	broker   int32 // or anyBroker
	key      protocol.ApiKey
	version  int16
	flexible bool // the request's version has tagged fields (KIP-482), in its header too
	clientID string
	body     []byte
	expect   int // a response of up to this size is allocated in one piece
}

const anyBroker int32 = -1

// answer is a response's body, without its header.
type answer struct {
	key  protocol.ApiKey
	body []byte
}

func (a *answer) ApiKey() protocol.ApiKey { return a.key }

var (
	_ protocol.RawExchanger  = (*call)(nil)
	_ protocol.BrokerMessage = (*call)(nil)
)

var errUnknownBroker = errors.New("the broker is not in the cluster's metadata")

// ApiKey, Broker, Required and RawExchange are how kafka-go's Transport asks for the route and for the exchange itself.
func (c *call) ApiKey() protocol.ApiKey { return c.key }

func (c *call) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	if c.broker == anyBroker {
		return protocol.Broker{ID: anyBroker}, nil
	}
	b, ok := cluster.Brokers[c.broker]
	if !ok {
		return b, fmt.Errorf("broker %d: %w", c.broker, errUnknownBroker)
	}
	return b, nil
}

func (c *call) Required(map[protocol.ApiKey]int16) bool { return true }

// correlation is the id of every request: a connection carries one at a time, and one that failed is closed.
const correlation int32 = 0x64627a31

func (c *call) RawExchange(rw io.ReadWriter) (protocol.Message, error) {
	b := make([]byte, 4, 64+len(c.body))
	b = binary.BigEndian.AppendUint16(b, uint16(c.key))
	b = binary.BigEndian.AppendUint16(b, uint16(c.version))
	b = binary.BigEndian.AppendUint32(b, uint32(correlation))
	b = appendString(b, c.clientID)
	if c.flexible {
		b = append(b, 0) // no tagged fields
	}
	b = append(b, c.body...)
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	if _, err := rw.Write(b); err != nil {
		return nil, err
	}
	body, err := readFrame(rw, c.expect)
	if err != nil {
		return nil, err
	}
	w := wire{b: body}
	if id := w.int32(); w.bad || id != correlation {
		return nil, fmt.Errorf("response of %d bytes has the correlation id %d, not %d", len(body), id, correlation)
	}
	if c.flexible {
		w.tags()
	}
	if w.bad {
		return nil, errTruncated
	}
	return &answer{key: c.key, body: w.b}, nil
}

// readFrame reads a response's size and the response. A size is not believed before its bytes are there: beyond expect the
// buffer grows with what arrives.
func readFrame(r io.Reader, expect int) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	n := int(int32(binary.BigEndian.Uint32(size[:])))
	if n < 4 || n > maxResponse {
		return nil, fmt.Errorf("response size %d is not within 4 and %d: is this a Kafka broker, and does it expect TLS?", n, maxResponse)
	}
	b := make([]byte, min(n, max(expect, 1<<20)))
	for filled := 0; ; {
		m, err := io.ReadFull(r, b[filled:])
		if filled += m; err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
		if filled == n {
			return b, nil
		}
		grown := make([]byte, min(n, 2*filled))
		copy(grown, b)
		b = grown
	}
}

var errTruncated = errors.New("response ends early or holds an impossible length")

// wire reads the protocol's primitives. After the first read that does not fit, bad is set and every read returns zero, so
// that a caller checks once at the end; lengths and counts are never larger than what is left.
type wire struct {
	b   []byte
	bad bool
}

func (w *wire) take(n int) []byte {
	if n < 0 || n > len(w.b) {
		w.bad, w.b = true, nil
		return nil
	}
	p := w.b[:n:n]
	w.b = w.b[n:]
	return p
}

func (w *wire) int8() int8 {
	if p := w.take(1); p != nil {
		return int8(p[0])
	}
	return 0
}

func (w *wire) int16() int16 {
	if p := w.take(2); p != nil {
		return int16(binary.BigEndian.Uint16(p))
	}
	return 0
}

func (w *wire) int32() int32 {
	if p := w.take(4); p != nil {
		return int32(binary.BigEndian.Uint32(p))
	}
	return 0
}

func (w *wire) int64() int64 {
	if p := w.take(8); p != nil {
		return int64(binary.BigEndian.Uint64(p))
	}
	return 0
}

func (w *wire) bool() bool { return w.int8() != 0 }

// uuid returns a topic id in hex, or "" for the zero id of a broker that has none.
func (w *wire) uuid() string {
	p := w.take(16)
	for _, c := range p {
		if c != 0 {
			return hex.EncodeToString(p)
		}
	}
	return ""
}

func (w *wire) uvarint(most uint64) int {
	v, n := binary.Uvarint(w.b)
	if n <= 0 || v > most {
		w.bad, w.b = true, nil
		return 0
	}
	w.b = w.b[n:]
	return int(v)
}

// length reads the length of a string, bytes or array: -1 is null.
func (w *wire) length(compact bool, wide bool) int {
	switch {
	case compact:
		return w.uvarint(maxResponse) - 1
	case wide:
		return int(w.int32())
	}
	return int(w.int16())
}

// string reads a nullable string; null is "".
func (w *wire) string(compact bool) string {
	n := w.length(compact, false)
	if n < 0 {
		return ""
	}
	return string(w.take(n))
}

// bytes reads nullable bytes without copying them.
func (w *wire) bytes(compact bool) []byte {
	n := w.length(compact, true)
	if n < 0 {
		return nil
	}
	return w.take(n)
}

// count reads an array's count. Elements take at least size bytes, so no count is larger than what the bytes left can hold.
func (w *wire) count(compact bool, size int) int {
	n := w.length(compact, true)
	if n < 0 {
		return 0
	}
	if n > len(w.b)/size {
		w.bad, w.b = true, nil
		return 0
	}
	return n
}

// tags skips tagged fields.
func (w *wire) tags() {
	for n := w.uvarint(maxResponse); n > 0 && !w.bad; n-- {
		w.uvarint(math.MaxUint32) // which field it is
		w.take(w.uvarint(maxResponse))
	}
}

func (w *wire) skipInt32s(compact bool) { w.take(4 * w.count(compact, 4)) }

func appendString(b []byte, s string) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(s)))
	return append(b, s...)
}

func appendBytes(b, v []byte) []byte { return append(appendInt32(b, int32(len(v))), v...) }

func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }

func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

// appendCount appends an array's count.
func appendCount(b []byte, compact bool, n int) []byte {
	if compact {
		return binary.AppendUvarint(b, uint64(n)+1)
	}
	return appendInt32(b, int32(n))
}

func appendTags(b []byte, flexible bool) []byte {
	if flexible {
		return append(b, 0)
	}
	return b
}

func hostPort(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}
