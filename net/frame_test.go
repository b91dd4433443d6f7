package net

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"jobd/store/storetest/must"
)

// split reads all frames of a stream.
func split(stream io.Reader, limit int) (frames [][]byte, err error) {
	var s splitter
	for {
		frame, err := s.next(limit)
		if err != nil {
			return frames, err
		}
		if frame != nil {
			frames = append(frames, bytes.Clone(frame))
			continue
		}
		if err := s.fill(stream); err != nil {
			return frames, err
		}
	}
}

// pieces is a reader that gives a stream in pieces of the given sizes, over and over.
type pieces struct {
	stream []byte
	sizes  []int
	turn   int
}

func (p *pieces) Read(into []byte) (int, error) {
	if len(p.stream) == 0 {
		return 0, io.EOF
	}
	n := min(p.sizes[p.turn%len(p.sizes)], len(p.stream), len(into))
	p.turn++
	copy(into, p.stream[:n])
	p.stream = p.stream[n:]
	return n, nil
}

// However a stream is cut into packets, the same frames come out.
func TestFramesSurviveAnyPackets(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var stream []byte
		frames := rapid.SliceOf(rapid.SliceOfN(rapid.ByteRange(5, 255), 0, 3000)).Draw(t, "frames")
		for _, frame := range frames {
			stream = append(append(stream, frame...), endOfFrame)
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 5000), 1, 10).Draw(t, "sizes")
		got, err := split(&pieces{stream: stream, sizes: sizes}, 3000)
		if !errors.Is(err, io.EOF) {
			t.Fatalf("ended with %v", err)
		}
		if len(got) != len(frames) {
			t.Fatalf("%d frames, want %d", len(got), len(frames))
		}
		for i := range got {
			if !bytes.Equal(got[i], frames[i]) {
				t.Fatalf("frame %d is %q, want %q", i, got[i], frames[i])
			}
		}
	})
}

func TestFrameLimit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		stream []byte
		frames int
		want   error
	}{
		{"at the limit", append(bytes.Repeat([]byte("x"), 1000), endOfFrame), 1, io.EOF},
		{"one above", append(bytes.Repeat([]byte("x"), 1001), endOfFrame), 0, errFrameTooLong},
		{"without an end", bytes.Repeat([]byte("x"), 1<<20), 0, errFrameTooLong},
		{"the second one", append([]byte{'x', endOfFrame}, bytes.Repeat([]byte("x"), 2000)...), 1, errFrameTooLong},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			frames, err := split(iotest.HalfReader(bytes.NewReader(test.stream)), 1000)
			if len(frames) != test.frames || !errors.Is(err, test.want) {
				t.Errorf("%d frames and %v, want %d and %v", len(frames), err, test.frames, test.want)
			}
		})
	}
}

// Pitfall 34: a link that said something long and is idle now holds little memory, and never more
// than twice the limit.
func TestPitfall34BufferStaysBoundedAndShrinks(t *testing.T) {
	t.Parallel()
	const limit = 100 << 10
	var s splitter
	stream := bytes.NewReader(append(bytes.Repeat([]byte("x"), limit), endOfFrame))
	for {
		frame := must.Get(s.next(limit))(t)
		if cap(s.buf) > 2*limit+smallBuffer {
			t.Fatalf("the buffer has %d bytes", cap(s.buf))
		}
		if frame != nil {
			break
		}
		must.Do(t, s.fill(stream))
	}
	_ = s.fill(stream)
	if cap(s.buf) != smallBuffer {
		t.Errorf("the idle buffer has %d bytes", cap(s.buf))
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("[2]\x04[3]\x04"), 3)
	f.Add([]byte("\x04\x04"), 1)
	f.Add([]byte(`[0,{"no":1,"type":"status"}]`), 7)
	f.Add(bytes.Repeat([]byte("x"), 600), 600)
	f.Fuzz(func(t *testing.T, stream []byte, size int) {
		const limit = 1024
		got, err := split(&pieces{stream: bytes.Clone(stream), sizes: []int{max(1, size)}}, limit)
		want := bytes.Split(stream, []byte{endOfFrame})
		want = want[:len(want)-1] // what has no end is no frame
		if err == io.EOF && len(got) != len(want) || len(got) > len(want) {
			t.Fatalf("%d frames, want %d", len(got), len(want))
		}
		for i := range got {
			if !bytes.Equal(got[i], want[i]) || len(got[i]) > limit {
				t.Fatalf("frame %d is %q, want %q", i, got[i], want[i])
			}
		}
	})
}
