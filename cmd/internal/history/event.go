package history

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"time"

	"jobd/journal"
	jobnet "jobd/net"
)

// maxOutput is how much of a job's stdout, and of its stderr, goes over the wire with an event: whatever a
// worker keeps, an answer must fit into a message.
const maxOutput = 1 << 20

// Event is a journal's event in its form on the wire. Output is there where it was asked for, as the exact bytes.
type Event struct{ journal.Event }

type eventForm struct {
	Seq     uint64          `json:"seq"`
	Time    time.Time       `json:"time"`
	Job     jobnet.Whole    `json:"job"`
	Kind    journal.Kind    `json:"kind"`
	Payload json.RawMessage `json:"payload"`
	Stdout  []byte          `json:"stdout,omitempty"` // base64
	Stderr  []byte          `json:"stderr,omitempty"`
	Hash    string          `json:"hash"`
}

// MarshalJSON implements json.Marshaler.
func (e Event) MarshalJSON() ([]byte, error) {
	payload, err := json.Marshal(e.Payload)
	if err != nil {
		return nil, err
	}
	form := eventForm{Seq: e.Seq, Time: e.Time.UTC(), Job: jobnet.Whole(e.Job), Kind: e.Kind(), Payload: payload, Hash: e.Hash.String()}
	if done, ok := e.Payload.(journal.Done); ok {
		form.Stdout = done.Stdout.Kept[:min(len(done.Stdout.Kept), maxOutput)]
		form.Stderr = done.Stderr.Kept[:min(len(done.Stderr.Kept), maxOutput)]
	}
	return json.Marshal(form)
}

// UnmarshalJSON implements json.Unmarshaler.
func (e *Event) UnmarshalJSON(data []byte) error {
	var form eventForm
	if err := json.Unmarshal(data, &form); err != nil {
		return err
	}
	anchor, err := journal.ParseAnchor(fmt.Sprintf("%d %s", form.Seq, form.Hash))
	if err != nil {
		return fmt.Errorf("event %d: %w", form.Seq, err)
	}
	payload, err := journal.DecodePayload(form.Kind, form.Payload, form.Stdout, form.Stderr)
	if err != nil {
		return fmt.Errorf("event %d: payload of kind %q: %w", form.Seq, form.Kind, err)
	}
	e.Event = journal.Event{Seq: form.Seq, Time: form.Time.UTC(), Job: int64(form.Job), Payload: payload, Hash: anchor.Hash}
	return nil
}

// mostOfLine is how many bytes of a line are told.
const mostOfLine = 200

// lastLines leaves of the events' output the last line of stderr.
func lastLines(events iter.Seq2[journal.Event, error]) iter.Seq2[journal.Event, error] {
	return func(yield func(journal.Event, error) bool) {
		for e, err := range events {
			if !yield(withLastLine(e), err) {
				return
			}
		}
	}
}

// withLastLine is an event with nothing of its output but the last line of stderr.
func withLastLine(e journal.Event) journal.Event {
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
