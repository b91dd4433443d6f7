package host

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"jobd/exec/runner/proc"
	"jobd/store/storetest/must"
)

// The newest beyond the limit is there, whatever comes in whatever pieces, from the first question on.
func TestATailHasTheNewest(t *testing.T) {
	t.Parallel()
	var all []byte
	for i := 0; len(all) < 3*tailSize; i++ {
		all = fmt.Appendf(all, "%d ", i)
	}
	for _, piece := range []int{1, 1000, 4096, tailSize - 1, tailSize, tailSize + 1, len(all)} {
		c := &capture{limit: 77}
		c.take(all[:1000])
		c.peek(0, 1)
		for at := 1000; at < len(all); at += piece {
			end := min(at+piece, len(all))
			c.take(all[at:end])
			if have := len(c.tail); have != min(tailSize, end-1000) {
				t.Fatalf("in pieces of %d there are %d bytes at %d", piece, have, end)
			}
		}
		if !bytes.Equal(c.tail, all[len(all)-tailSize:]) {
			t.Errorf("in pieces of %d the tail is wrong", piece)
		}
	}
}

// What a job writes can be looked at from any offset; what was not kept is passed over.
func TestPeeks(t *testing.T) {
	t.Parallel()
	first, second, third := gate(t), gate(t), gate(t)
	spec := script("printf 0123456789; printf err >&2; read line <" + first + "; printf abcdefghij; read line <" + second +
		"; head -c 200000 /dev/zero; printf xyz; read line <" + third)
	spec.maxOutput = 15
	p := launch(t, newTestLocal(t), spec)
	<-p.isBegun
	type want struct {
		from int64
		most int
		at   int64
		text string
	}
	look := func(size int64, wants ...want) {
		t.Helper()
		for p.stdout.peek(0, 1).Size != size { // it is read as it comes
		}
		for _, w := range wants {
			if got := p.stdout.peek(w.from, w.most); got.At != w.at || string(got.Bytes) != w.text || got.Size != size {
				t.Errorf("from %d, %d bytes: %d %q of %d, want %d %q of %d", w.from, w.most, got.At, got.Bytes, got.Size, w.at, w.text, size)
			}
		}
	}
	look(10, want{0, 100, 0, "0123456789"}, want{3, 2, 3, "34"}, want{10, 5, 10, ""}, want{99, 5, 10, ""}, want{-3, 100, 7, "789"}, want{-99, 2, 0, "01"})
	for p.stderr.peek(0, 1).Size != 3 { // it is read as it comes, too
	}
	if got := p.stderr.peek(1, 100); string(got.Bytes) != "rr" {
		t.Errorf("stderr has %q", got.Bytes)
	}
	pass(t, first) // 5 of 10 bytes are beyond the limit
	look(20, want{12, 100, 12, "cde"}, want{15, 100, 15, "fghij"}, want{17, 2, 17, "hi"}, want{-8, 100, 12, "cde"}, want{-2, 9, 18, "ij"})
	pass(t, second)
	const size, tailAt = 200_023, 200_023 - tailSize
	look(size, want{size - 3, 9, size - 3, "xyz"}, want{-3, 9, size - 3, "xyz"}, want{14, 1, 14, "e"}, want{16, 1, tailAt, "\x00"}, want{-size, 1, tailAt, "\x00"})
	pass(t, third)
	if done := p.wait(); done.Stdout.Size != size || string(done.Stdout.Kept) != "0123456789abcde" {
		t.Errorf("%d bytes, kept %q", done.Stdout.Size, done.Stdout.Kept)
	}
}

// pass lets a job pass a gate.
func pass(t *testing.T, gate string) {
	t.Helper()
	must.Do(t, os.WriteFile(gate, []byte("go\n"), 0))
}

// Only what is followed is kept beyond the limit, and only as long as it is.
func TestNobodyFollows(t *testing.T) {
	t.Parallel()
	c := &capture{}
	more := []byte("more")
	if c.take(more); c.tail != nil {
		t.Error("nobody asked, and there is a tail")
	}
	c.peek(0, 1)
	if c.take(more); string(c.tail) != "more" {
		t.Errorf("somebody asked, and the tail is %q", c.tail)
	}
	c.followed = proc.Uptime() - 1
	if c.take(more); c.tail != nil || c.followed != 0 {
		t.Error("nobody has asked for long, and there is a tail")
	}
}

// Followers change nothing about what is kept and counted.
func TestFollowersAndTheCount(t *testing.T) {
	t.Parallel()
	spec := script("head -c 5000000 /dev/zero; head -c 70000 /dev/zero >&2")
	spec.maxOutput = 1000
	p := launch(t, newTestLocal(t), spec)
	for from := [2]int64{}; !isClosed(p.isEnded); {
		for i, c := range []*capture{&p.stdout, &p.stderr} {
			part := c.peek(from[i], 1<<20)
			if part.At < from[i] || len(part.Bytes) > mostPeeked || strings.Trim(string(part.Bytes), "\x00") != "" {
				t.Fatalf("from %d: %d bytes at %d", from[i], len(part.Bytes), part.At)
			}
			from[i] = part.At + int64(len(part.Bytes))
		}
	}
	if done := p.wait(); done.Stdout.Size != 5_000_000 || len(done.Stdout.Kept) != 1000 || done.Stderr.Size != 70_000 || len(done.Stderr.Kept) != 1000 {
		t.Errorf("%d of %d and %d of %d bytes", len(done.Stdout.Kept), done.Stdout.Size, len(done.Stderr.Kept), done.Stderr.Size)
	}
}

// followedBytes is what a job writes beyond the limit in the benchmark.
const followedBytes = 1 << 30

func BenchmarkWritingBeyondTheLimit(b *testing.B) {
	for name, followers := range map[string]int{"alone": 0, "followed": 1} {
		b.Run(name, func(b *testing.B) {
			local := must.Get(newReactor(&witness{of: make(map[*job]watched)}, newTestSpool(b)))(b)
			go func() { _ = local.run() }()
			defer local.stop()
			b.SetBytes(followedBytes)
			for b.Loop() {
				spec := script(fmt.Sprintf("head -c %d /dev/zero", followedBytes))
				spec.maxOutput = 1000
				w, refusal := try(local, spec)
				if refusal.text != "" {
					b.Fatal(refusal.text)
				}
				for !isClosed(w.isEnded) {
					if followers > 0 {
						w.stdout.peek(-tailSize, tailSize)
					}
					select {
					case <-w.isEnded:
					case <-time.After(10 * time.Millisecond):
					}
				}
			}
		})
	}
}
