package history

import (
	"bytes"
	"iter"

	"jobd/journal"
)

// mostOfLine is how many bytes of a line are told.
const mostOfLine = 200

// lastLines leaves of the events' output the last line of stderr.
func lastLines(events iter.Seq2[journal.Event, error]) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range events {
			if !yield(WithLastLine(e), err) {
				return
			}
		}
	}
}

// WithLastLine is an event with nothing of its output but the last line of stderr.
func WithLastLine(e journal.Event) journal.Event {
	if done, ok := e.Payload.(journal.Done); ok {
		done.Stdout.Kept, done.Stderr.Kept = nil, bytes.Clone(lastLine(done.Stderr))
		e.Payload = done
	}
	return e
}

// lastLine is the last line of a stream, its first bytes if it is long.
func lastLine(output journal.Output) []byte {
	line := output.LastLine()
	if len(line) > mostOfLine {
		line = bytes.ToValidUTF8(line[:mostOfLine], nil)
	}
	return line
}
