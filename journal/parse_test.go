package journal

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Read by hand or by encoding/json, a payload is the same.
func TestPayloadsAreReadAlike(t *testing.T) {
	t.Parallel()
	var p payloads
	rapid.Check(t, func(t *rapid.T) {
		for _, d := range drafts().Draw(t, "drafts") {
			r, err := encode(Event{Job: d.Job, Payload: d.Payload})
			if err != nil {
				t.Fatal(err)
			}
			alike(t, &p, &r)
		}
	})
}

type failer interface{ Fatalf(string, ...any) }

func alike(t failer, p *payloads, r *record) {
	want, wantErr := r.decodePayload()
	got, err := p.decode(r)
	if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) {
		t.Fatalf("%s %s: %v, want %v: %s", r.kind, r.payload, err, wantErr, diff)
	}
}

func FuzzPayloads(f *testing.F) {
	for _, d := range wholeLife(1) {
		r, err := encode(Event{Job: 1, Payload: d.Payload})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(r.kind), r.payload)
	}
	f.Fuzz(func(t *testing.T, kind string, payload []byte) {
		alike(t, &payloads{}, &record{kind: kindOf([]byte(kind)), payload: payload})
	})
}

// A changed byte changes nothing in that, whatever it makes of the payload.
func TestChangedPayloadsAreReadAlike(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const bytes = "\"\\{}:,0129-.e atnu\x00\x7f\xc3"
	var p payloads
	for _, d := range append(wholeLife(1), Draft{1, Running{Attempt: 2, Runner: "r"}}, Draft{1, Done{Signal: "SIGTERM", Reason: "gone"}}) {
		r, err := encode(Event{Job: 1, Payload: d.Payload})
		if err != nil {
			t.Fatal(err)
		}
		original := r.payload
		for range 3000 {
			r.payload = slices.Clone(original)
			at := random.IntN(len(r.payload))
			switch b := bytes[random.IntN(len(bytes))]; random.IntN(3) {
			case 0:
				r.payload[at] = b
			case 1:
				r.payload = slices.Insert(r.payload, at, b)
			default:
				r.payload = slices.Delete(r.payload, at, at+1)
			}
			alike(t, &p, &r)
		}
	}
}
