package segment

import (
	"bytes"
	"fmt"

	"github.com/klauspost/compress/zstd"

	"jobd/journal"
)

// newEncoder makes a zstd encoder for blocks of up to some hundred KiB. EncodeAll may be called
// concurrently.
func newEncoder(level zstd.EncoderLevel) *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(level), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(1<<20), zstd.WithLowerEncoderMem(true))
	if err != nil {
		panic("journal: zstd does not take its options: " + err.Error())
	}
	return e
}

// maxFrame bounds what a compressed frame may claim to hold.
const maxFrame = 4 << 30

// NewDecoder makes a zstd decoder. DecodeAll may be called concurrently.
func NewDecoder() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxFrame))
	if err != nil {
		panic("journal: zstd does not take its options: " + err.Error())
	}
	return d
}

// zstdMagic is what every zstd frame begins with.
var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// minPacked is from how many bytes on compressing a job's output is tried.
const minPacked = 256

// pack is a job's output as the open segment stores it: compressed where that saves an eighth, else
// as it is. Output that looks compressed by itself is always wrapped, so that unpack can tell.
func pack(e *zstd.Encoder, output []byte) []byte {
	looks := bytes.HasPrefix(output, zstdMagic)
	if len(output) < minPacked && !looks {
		return output
	}
	packed := e.EncodeAll(output, nil)
	if looks || len(packed) < len(output)/8*7 {
		return packed
	}
	return output
}

// unpack is the reverse of pack.
func unpack(d *zstd.Decoder, stored []byte) ([]byte, error) {
	if !bytes.HasPrefix(stored, zstdMagic) {
		return stored, nil
	}
	output, err := d.DecodeAll(stored, nil)
	if err != nil {
		return nil, &journal.DamagedError{Detail: "its output is not readable", Err: fmt.Errorf("decompress: %w", err)}
	}
	return output, nil
}
