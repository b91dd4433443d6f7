package archive

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"jobd/journal"
)

// Read by hand or by encoding/json, a payload is the same.
func TestPayloadsAreReadAlike(t *testing.T) {
	t.Parallel()
	var p Decoder
	rapid.Check(t, func(t *rapid.T) {
		for _, d := range drafts().Draw(t, "drafts") {
			r, err := Encode(journal.Event{Job: d.Job, Payload: d.Payload})
			if err != nil {
				t.Fatal(err)
			}
			alike(t, &p, &r)
		}
	})
}

type failer interface{ Fatalf(string, ...any) }

func alike(t failer, p *Decoder, r *Record) {
	want, wantErr := r.DecodePayload()
	got, err := p.decode(r)
	if diff := cmp.Diff(want, got); diff != "" || (err == nil) != (wantErr == nil) {
		t.Fatalf("%s %s: %v, want %v: %s", r.Kind, r.Payload, err, wantErr, diff)
	}
}

func FuzzPayloads(f *testing.F) {
	for _, d := range wholeLife(1) {
		r, err := Encode(journal.Event{Job: 1, Payload: d.Payload})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(r.Kind), r.Payload)
	}
	f.Fuzz(func(t *testing.T, kind string, payload []byte) {
		alike(t, &Decoder{}, &Record{Kind: kindOf([]byte(kind)), Payload: payload})
	})
}

// A changed byte changes nothing in that, whatever it makes of the payload.
func TestChangedPayloadsAreReadAlike(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	const bytes = "\"\\{}:,0129-.e atnu\x00\x7f\xc3"
	var p Decoder
	for _, d := range append(wholeLife(1), journal.Draft{Job: 1, Payload: journal.Running{Attempt: 2, Runner: "r"}}, journal.Draft{Job: 1, Payload: journal.Running{Attempt: 2, Timeout: 9, KillAfter: 8, Executor: "http"}}, journal.Draft{Job: 1, Payload: journal.Started{Address: "h:1"}}, journal.Draft{Job: 1, Payload: journal.Done{Signal: "SIGTERM", Reason: "gone"}}) {
		r, err := Encode(journal.Event{Job: 1, Payload: d.Payload})
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

// drafts draws one append, legal or not.
func drafts() *rapid.Generator[[]journal.Draft] {
	one := rapid.Custom(func(t *rapid.T) journal.Draft {
		text := rapid.SampledFrom([]string{"a", "b", "\xff\xfe bad", "�", "日本", `\ufffd`, "<&>\x00"}).Draw(t, "text")
		code := rapid.IntRange(0, 255).Draw(t, "code")
		payload := rapid.SampledFrom([]journal.Payload{
			journal.Accepted{Target: text, Token: text, Manual: code%2 == 0},
			journal.Ignored{Reason: text},
			journal.Released{Reason: text},
			journal.Running{Attempt: 1 + code%3},
			journal.Running{Attempt: 1, Token: text, Timeout: int64(code), KillAfter: 1, Executor: text},
			journal.Started{Address: text},
			journal.Started{Pid: code, StartTime: 1<<64 - 1, BootID: text},
			journal.Signal{Signo: code, By: text},
			journal.Done{Result: text, Code: &code, Signal: text, Stdout: journal.Output{Kept: []byte(text), Size: 9}},
			journal.Conflict{Found: &journal.Row{Target: text}, Wanted: text},
			journal.Opened{Name: text, Targets: map[string]int{text: code}},
			journal.Closed{Reason: text},
			journal.Paused{Targets: []string{text}},
			journal.TargetAdded{Target: text, Concurrency: code},
			journal.TargetRemoved{Target: text},
			journal.ConcurrencySet{Target: text, Concurrency: code},
		}).Draw(t, "payload")
		return journal.Draft{Job: rapid.Int64Range(0, 3).Draw(t, "job"), Payload: payload}
	})
	return rapid.SliceOfN(one, 0, 3)
}

// wholeLife is a job's way from its claim to its end.
func wholeLife(job int64) []journal.Draft {
	code := int(job % 3)
	return []journal.Draft{
		{Job: job, Payload: journal.Accepted{Target: "t", Token: "@abcdefghi"}},
		{Job: job, Payload: journal.Running{Attempt: 1}},
		{Job: job, Payload: journal.Started{Pid: int(job), StartTime: 12345, BootID: "boot"}},
		{Job: job, Payload: journal.Done{Result: "ok", Code: &code, Stdout: journal.Output{Kept: []byte("out"), Size: 3}}},
	}
}
