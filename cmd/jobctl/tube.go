package main

import (
	"bytes"
	"io"
	"unicode/utf8"
)

// tube passes on what a job writes. In a pipe or a file stdout goes to stdout and stderr to stderr,
// byte for byte. On a terminal both come on one screen: stderr in colour, or, where there is none,
// behind a mark; each on lines of its own.
type tube struct {
	*program
	merged bool
	last   int       // the stream that was written last
	within bool      // its line has not ended
	begun  [2][]byte // of a character that ends in the next write
	behind int64     // bytes that are there and were not asked for yet
}

// stderrMark stands before each line of stderr on a terminal without colours.
const stderrMark = "stderr| "

func newTube(p *program) *tube { return &tube{program: p, merged: p.terminal && p.errTerminal} }

// write passes on a piece of a stream: 0 is stdout, 1 stderr.
func (t *tube) write(stream int, piece []byte) error {
	if !t.merged {
		_, err := [2]io.Writer{t.out, t.err}[stream].Write(piece)
		return err
	}
	piece = append(t.begun[stream], piece...)
	whole := len(piece) - unfinished(piece)
	t.begun[stream] = bytes.Clone(piece[whole:])
	return t.show(stream, piece[:whole])
}

// unfinished is how many bytes at the end of a text begin a character that is not whole.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}

// show writes whole characters to the terminal.
func (t *tube) show(stream int, piece []byte) error {
	var out bytes.Buffer
	if len(piece) > 0 && t.within && stream != t.last {
		out.WriteByte('\n')
		t.within = false
	}
	for line := range bytes.Lines(piece) {
		if stream == 0 {
			out.Write(line)
		} else {
			text, ended := bytes.CutSuffix(line, []byte("\n"))
			if !t.within && !t.coloured() {
				out.WriteString(stderrMark)
			}
			out.WriteString(t.paint(string(text), bad))
			if ended {
				out.WriteByte('\n')
			}
		}
		t.last, t.within = stream, !bytes.HasSuffix(line, []byte("\n"))
	}
	_, err := t.out.Write(out.Bytes())
	return err
}

// flush ends the line on a terminal, for what jobctl itself has to say.
func (t *tube) flush() error {
	if !t.merged {
		return nil
	}
	for stream, begun := range t.begun {
		t.begun[stream] = nil
		if err := t.show(stream, begun); err != nil {
			return err
		}
	}
	if !t.within {
		return nil
	}
	t.within = false
	_, err := t.out.Write([]byte("\n"))
	return err
}
