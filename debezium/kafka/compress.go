package kafka

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go/compress"
)

// maxBatch bounds the memory of one record batch once decompressed, its decoded records included. Batches are as large as
// their producer's batch.size before compression; a change stream's are a few MiB.
const maxBatch = 256 << 20

var (
	errTooLarge    = errors.New("the batch decompresses to more than the bound for one batch")
	errCompression = errors.New("unknown compression")
)

// decompress returns src decompressed by the codec of a batch's attributes, at most limit bytes.
//
// gzip and lz4 are read as streams by kafka-go's codecs. snappy and zstd state the size of what they hold and kafka-go's
// readers allocate it before seeing data, so these two are decoded here, with the same library, where the size can be refused.
func decompress(codec compress.Compression, src []byte, limit int) ([]byte, error) {
	switch codec {
	case compress.None:
		return src, nil
	case compress.Snappy:
		return unsnappy(src, limit)
	case compress.Zstd:
		return unzstd(src, limit)
	case compress.Gzip, compress.Lz4:
		return stream(codec.Codec(), src, limit)
	}
	return nil, fmt.Errorf("%w %d", errCompression, int8(codec))
}

func stream(codec compress.Codec, src []byte, limit int) ([]byte, error) {
	r := codec.NewReader(bytes.NewReader(src))
	out := bytes.NewBuffer(make([]byte, 0, min(limit, 4*len(src)+bytes.MinRead)))
	n, err := out.ReadFrom(io.LimitReader(r, int64(limit)+1))
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	if err == nil && n > int64(limit) {
		err = errTooLarge
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", codec.Name(), err)
	}
	return out.Bytes(), nil
}

// xerial is the magic of the framing that Java's snappy streams have: 8 bytes, two int32 versions, then chunks with an
// int32 length each. Other producers write one plain block.
var xerial = []byte{130, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

func unsnappy(src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerial) {
		return appendBlock(nil, src, limit)
	}
	w := wire{b: src}
	w.take(len(xerial) + 8)
	var out []byte
	for len(w.b) > 0 {
		chunk := w.bytes(false)
		if w.bad {
			return nil, fmt.Errorf("snappy: %w", io.ErrUnexpectedEOF)
		}
		var err error
		if out, err = appendBlock(out, chunk, limit); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func appendBlock(out, block []byte, limit int) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, fmt.Errorf("snappy: %w", err)
	}
	// A block of snappy cannot hold more than some 22 times its size, so a larger claim is refused before it is allocated.
	if n > limit-len(out) || n > 32*len(block)+64 {
		return nil, fmt.Errorf("snappy: %w", errTooLarge)
	}
	out = slices.Grow(out, n)
	decoded, err := s2.Decode(out[len(out):len(out)+n], block)
	if err != nil {
		return nil, fmt.Errorf("snappy: %w", err)
	}
	return out[:len(out)+len(decoded)], nil
}

// zstdDecoders hold decoders that are bounded by maxBatch.
var zstdDecoders = sync.Pool{New: func() any {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxBatch), zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return err
	}
	return d
}}

func unzstd(src []byte, limit int) ([]byte, error) {
	d, ok := zstdDecoders.Get().(*zstd.Decoder)
	if !ok {
		return nil, errors.New("zstd: no decoder for these options")
	}
	defer zstdDecoders.Put(d)
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	if h.HasFCS && h.FrameContentSize > uint64(limit) {
		return nil, fmt.Errorf("zstd: %w", errTooLarge)
	}
	out, err := d.DecodeAll(src, nil)
	if err != nil {
		return nil, fmt.Errorf("zstd: %w", err)
	}
	if len(out) > limit {
		return nil, fmt.Errorf("zstd: %w", errTooLarge)
	}
	return out, nil
}
