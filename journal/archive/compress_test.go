package archive

import (
	"bytes"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// Damaged compressed output is told as damage of its event.
func TestDamagedOutput(t *testing.T) {
	t.Parallel()
	d := newDecoder()
	defer d.Close()
	packed := pack(newEncoder(zstd.SpeedFastest), bytes.Repeat([]byte("x"), 1000))
	packed[len(packed)-1] ^= 1
	if _, err := unpack(d, packed); err == nil || !strings.Contains(err.Error(), "its output is not readable") {
		t.Errorf("%v", err)
	}
}
