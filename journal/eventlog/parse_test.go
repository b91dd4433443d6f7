package eventlog

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"jobd/journal"
	"jobd/journal/segment"
)

// Read by hand or by encoding/json, a payload is the same.
func TestPayloadsAreReadAlike(t *testing.T) {
	t.Parallel()
	var p segment.Decoder
	rapid.Check(t, func(t *rapid.T) {
		for _, d := range drafts().Draw(t, "drafts") {
			r, err := segment.Encode(journal.Event{Job: d.Job, Payload: d.Payload})
			if err != nil {
				t.Fatal(err)
			}
			alike(t, &p, &r)
		}
	})
}

type failer interface{ Fatalf(string, ...any) }

func alike(t failer, p *segment.Decoder, r *segment.Record) {
	want, wantErr := r.DecodePayload()
	got, err := p.Decode(r)
	if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) {
		t.Fatalf("%s %s: %v, want %v: %s", r.Kind, r.Payload, err, wantErr, diff)
	}
}

func FuzzPayloads(f *testing.F) {
	for _, d := range wholeLife(1) {
		r, err := segment.Encode(journal.Event{Job: 1, Payload: d.Payload})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(r.Kind), r.Payload)
	}
	f.Fuzz(func(t *testing.T, kind string, payload []byte) {
		alike(t, &segment.Decoder{}, &segment.Record{Kind: segment.KindOf([]byte(kind)), Payload: payload})
	})
}

// A changed byte changes nothing in that, whatever it makes of the payload.
func TestChangedPayloadsAreReadAlike(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const bytes = "\"\\{}:,0129-.e atnu\x00\x7f\xc3"
	var p segment.Decoder
	for _, d := range append(wholeLife(1), journal.Draft{Job: 1, Payload: journal.Running{Attempt: 2, Runner: "r"}}, journal.Draft{Job: 1, Payload: journal.Done{Signal: "SIGTERM", Reason: "gone"}}) {
		r, err := segment.Encode(journal.Event{Job: 1, Payload: d.Payload})
		if err != nil {
			t.Fatal(err)
		}
		original := r.Payload
		for range 3000 {
			r.Payload = slices.Clone(original)
			at := random.IntN(len(r.Payload))
			switch b := bytes[random.IntN(len(bytes))]; random.IntN(3) {
			case 0:
				r.Payload[at] = b
			case 1:
				r.Payload = slices.Insert(r.Payload, at, b)
			default:
				r.Payload = slices.Delete(r.Payload, at, at+1)
			}
			alike(t, &p, &r)
		}
	}
}
