package sqlgen

import (
	"encoding/binary"

	"replicator/debezium"
)

// geometry encodes for the spatial types: the SRID, four bytes, the lowest first, and well-known binary in that order
// of bytes, which is how MySQL and MariaDB keep a geometry ("Geometry values, internal storage format").
func (e *mysqlEncoder) geometry() Encoder {
	if e.m.sense != senseGeometry && e.m.sense != senseBytes && e.m.sense != senseAny {
		return nil
	}
	return func(dst []byte, v *debezium.Value) ([]byte, error) {
		raw, err := appendEWKB(nil, v)
		if err != nil {
			return dst, err
		}
		w := wkb{rest: raw}
		mark := len(dst)
		w.out = append(dst, 0, 0, 0, 0)
		w.geometry(0)
		if w.bad || len(w.rest) > 0 {
			return dst, invalid("the geometry is not well-known binary of two dimensions, which is all that MySQL has")
		}
		binary.LittleEndian.PutUint32(w.out[mark:], w.srid)
		return w.out, nil
	}
}

// wkb rewrites a well-known binary; the first thing that does not fit makes it fail for good.
type wkb struct {
	rest, out []byte
	order     binary.ByteOrder
	srid      uint32
	bad       bool
}

// maxGeometryDepth bounds collections of collections.
const maxGeometryDepth = 32

// uint32 copies a number.
func (w *wkb) uint32() uint32 {
	if w.bad || len(w.rest) < 4 {
		w.bad = true
		return 0
	}
	n := w.order.Uint32(w.rest)
	w.rest = w.rest[4:]
	w.out = binary.LittleEndian.AppendUint32(w.out, n)
	return n
}

// points copies n points.
func (w *wkb) points(n uint32) {
	const size = 16
	if w.bad || uint64(len(w.rest)) < uint64(n)*size {
		w.bad = true
		return
	}
	for range 2 * n {
		w.out = binary.LittleEndian.AppendUint64(w.out, w.order.Uint64(w.rest))
		w.rest = w.rest[8:]
	}
}

// header copies the order of bytes and the type, and takes PostGIS's SRID out.
func (w *wkb) header() uint32 {
	if w.bad || len(w.rest) < 5 || w.rest[0] > 1 {
		w.bad = true
		return 0
	}
	w.order = binary.BigEndian
	if w.rest[0] == 1 {
		w.order = binary.LittleEndian
	}
	kind := w.order.Uint32(w.rest[1:])
	w.rest = w.rest[5:]
	if kind&sridFlag != 0 {
		kind &^= sridFlag
		if len(w.rest) < 4 {
			w.bad = true
			return 0
		}
		w.srid, w.rest = w.order.Uint32(w.rest), w.rest[4:]
	}
	w.out = binary.LittleEndian.AppendUint32(append(w.out, 1), kind)
	return kind
}

func (w *wkb) geometry(depth int) {
	switch kind := w.header(); {
	case w.bad || depth > maxGeometryDepth:
		w.bad = true
	case kind == 1:
		w.points(1)
	case kind == 2:
		w.points(w.uint32())
	case kind == 3:
		for n := w.uint32(); n > 0 && !w.bad; n-- {
			w.points(w.uint32())
		}
	case kind >= 4 && kind <= 7: // of geometries
		for n := w.uint32(); n > 0 && !w.bad; n-- {
			w.geometry(depth + 1)
		}
	default:
		w.bad = true
	}
}
