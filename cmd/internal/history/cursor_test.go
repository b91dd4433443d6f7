package history

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// numbers produces 0 … n−1, then an error, and tells how many were taken.
func numbers(n int, err error, taken *int) Produce {
	return func(_ context.Context, yield func(any) error) error {
		for i := range n {
			if err := yield(i); err != nil {
				return err
			}
			*taken = i + 1
		}
		return err
	}
}

// A stream comes in bounded pages, and its producer runs no further than what was asked for.
func TestPagesAreBoundedAndHoldTheProducerBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Cursors
		taken, total := 0, 2*pageItems+5
		id := c.Open(t.Context(), "me", "here", numbers(total, nil, &taken))
		got := 0
		for pages := 1; ; pages++ {
			page, err := c.Next(t.Context(), "me", id)
			if err != nil || page.Error != "" {
				t.Fatalf("page %d: %v, %s", pages, err, page.Error)
			}
			if got += len(page.Items); len(page.Items) > pageItems {
				t.Fatalf("page %d has %d items", pages, len(page.Items))
			}
			synctest.Wait()
			if taken > got+1 {
				t.Fatalf("%d items were produced, %d asked for", taken, got)
			}
			if !page.More {
				break
			}
		}
		check.Equal(t, got, total, "items")
		if _, err := c.Next(t.Context(), "me", id); !errors.Is(err, ErrUnknown) {
			t.Errorf("after the end: %v, want %v", err, ErrUnknown)
		}
	})
}

func TestPageOfAStreamThatGivesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Cursors
		id := c.Open(t.Context(), "me", "here", func(ctx context.Context, _ func(any) error) error {
			<-ctx.Done()
			return ctx.Err()
		})
		begun := time.Now()
		page, err := c.Next(t.Context(), "me", id)
		if err != nil || !page.More || len(page.Items) > 0 || time.Since(begun) != PageTime {
			t.Errorf("%+v, %v after %v: want an empty page after %v", page, err, time.Since(begun), PageTime)
		}
		check.ErrorIs(t, c.Close("somebody else", id), ErrUnknown, "closed by somebody else")
		check.Do(t, c.Close("me", id))
		synctest.Wait()
		if _, err := c.Next(t.Context(), "me", id); !errors.Is(err, ErrUnknown) {
			t.Errorf("after it was closed: %v", err)
		}
	})
}

func TestStreamThatFails(t *testing.T) {
	t.Parallel()
	var taken int
	c := Cursors{Tell: func(err error) string { return "told: " + err.Error() }}
	id := c.Open(t.Context(), "me", "here", numbers(3, errors.New("damaged"), &taken))
	page, err := c.Next(t.Context(), "me", id)
	if err != nil || page.More || len(page.Items) != 3 || page.Error != "told: damaged" {
		t.Errorf("%+v, %v", page, err)
	}
}

// A cursor that nobody asks is dropped, so is one whose link has ended, and there are never too many.
func TestCursorsDoNotStayForEver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Cursors
		link, end := context.WithCancel(t.Context())
		var taken int
		var id string
		for range maxCursors + 1 {
			id = c.Open(link, "me", "here", numbers(1, nil, &taken))
		}
		if len(c.open) != maxCursors || c.open[id] == nil {
			t.Fatalf("%d are open", len(c.open))
		}
		time.Sleep(time.Second)
		id = c.Open(link, "me", "here", numbers(1, nil, &taken))
		time.Sleep(idleTime - time.Second)
		synctest.Wait()
		check.Equal(t, len(c.open), 1, "after a minute %d are open that nobody has asked for", len(c.open)-1)
		end()
		synctest.Wait()
		if _, err := c.Next(t.Context(), "me", id); !errors.Is(err, ErrUnknown) {
			t.Errorf("after its link has ended: %v", err)
		}
	})
}

// One peer does not take the streams of others: where as many are open as may be, the peer with most of them
// loses the one that it has not asked for longest. So those whose clients have left a master don't keep new
// ones out, and one that is asked for stays.
func TestCursorsOfOnePeer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var c Cursors
		link, end := context.WithCancel(t.Context())
		var ids []string
		open := func(peer string) string {
			time.Sleep(time.Millisecond)
			return c.Open(link, "master", peer, func(ctx context.Context, yield func(any) error) error {
				for yield(1) == nil {
				}
				return ctx.Err()
			})
		}
		for range maxCursors {
			ids = append(ids, open("greedy"))
			must.Get(c.Next(link, "master", ids[0]))(t)
		}
		other := open("modest")
		for range maxCursors {
			ids[maxCursors-1] = open("greedy")
			must.Get(c.Next(link, "master", ids[0]))(t)
		}
		for _, id := range []string{ids[0], ids[maxCursors-1], other} {
			must.Get(c.Next(link, "master", id))(t)
		}
		if _, err := c.Next(link, "master", ids[1]); !errors.Is(err, ErrUnknown) {
			t.Errorf("the stream that nobody has asked for longest: %v, want %v", err, ErrUnknown)
		}
		end()
		synctest.Wait()
	})
}

// Every kind that there is comes over the wire as it was.
func TestEventsComeOverTheWireAsTheyWere(t *testing.T) {
	t.Parallel()
	code := 7
	payloads := []journal.Payload{
		journal.Accepted{Target: "a", Manual: true, Token: "@t"},
		journal.Ignored{Reason: "why"},
		journal.Released{Reason: "why"},
		journal.Running{Attempt: 2, Runner: "r"},
		journal.Started{Pid: 1, StartTime: 2, BootID: "b"},
		journal.Signal{Signo: 15, By: "me"},
		journal.Done{Result: "fail", Code: &code, Stdout: journal.Output{Kept: []byte{0xff, 0, 'a'}, Size: 3}, Stderr: journal.Output{Size: 9}, Elapsed: 3_000_000, Token: "@t"},
		journal.Conflict{Found: &journal.Row{Target: "a", Status: "waiting", Owner: "o"}, Wanted: "done"},
		journal.SetAside{Wanted: "done", Reason: "locked", Token: "@t"},
		journal.Requeued{Reason: "the runner is gone", By: "on_crash", Token: "@t"},
		journal.Cancelled{By: "me", Runs: true, Grace: 10_000_000, Token: "@t"},
		journal.Retried{Target: "a", From: "done", To: "waiting", Result: "fail", Finished: 7, By: "me"},
		journal.Planned{Target: "a", From: journal.Plan{RunAt: 5, Schedule: "daily 02:30"}, To: journal.Again{RunAt: 9, PlannedAt: 9, Why: "schedule"}, Reason: "missed", By: "me"},
		journal.Replanned{Token: "@t", Schedule: "every 5m", Zone: "UTC", Again: &journal.Again{RunAt: 9, PlannedAt: 9, Why: "schedule"}, Note: "n"},
		journal.Opened{Name: "n", Version: "1", Pid: 3, BootID: "b", Targets: map[string]int{"a": 1}},
		journal.Closed{Reason: "why"},
		journal.Paused{Targets: []string{"a"}, By: "me"},
		journal.Continued{Targets: []string{"a"}, By: "me"},
		journal.TargetAdded{Target: "a", Concurrency: 1, By: "me"},
		journal.TargetRemoved{Target: "a", By: "me"},
		journal.ConcurrencySet{Target: "a", Concurrency: 4, By: "me"},
		journal.Marked{Mark: "m"},
		journal.Server{Server: "s", Before: "b", Mended: 3, Left: 4},
		journal.Runner{Instance: "r2", Before: "r1"},
		journal.Requested{Jobs: []int64{1, 2}, By: "me"},
		journal.Refused{Request: "add-target", About: "a", Reason: "no", By: "me"},
		journal.Reloaded{File: "/f", Digest: "00", Changed: []string{"a"}, By: "me"},
		journal.Reapplied{From: 1, To: 9, Rows: 2, By: "me", Notes: "n"},
		journal.Retention{First: 1, Last: 2, Seq: 9, Hash: "00", Reason: "old", Archive: "/a"},
		journal.Registered{Worker: "w", Targets: []string{"a"}, More: 2, By: "me", Times: 3},
		journal.Left{Worker: "w", Reason: "it stops", By: "me", Times: 3},
	}
	must.Equal(t, len(payloads), len(journal.Kinds()), "payloads for … kinds")
	for i, payload := range payloads {
		want := Event{journal.Event{
			Seq: uint64(i + 1), Job: 5, Time: time.Date(2026, 11, 20, 1, 2, 3, 4000, time.UTC), Payload: payload, Hash: journal.Hash{byte(i)},
		}}
		encoded := must.Get(json.Marshal(want))(t)
		var got Event
		if err := json.Unmarshal(encoded, &got); err != nil {
			t.Errorf("%s: %v", payload.Kind(), err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", payload.Kind(), diff)
		}
		check.Equal(t, payload.Kind(), journal.Kinds()[i], "kind %d is", i)
	}
}

func TestWrongEventsAreRefused(t *testing.T) {
	t.Parallel()
	const hash = `"hash":"5555555555555555555555555555555555555555555555555555555555555555"`
	for name, text := range map[string]string{
		"no object":       `[]`,
		"no hash":         `{"seq":1,"kind":"done","payload":{}}`,
		"no such kind":    `{"seq":1,"kind":"gone","payload":{},` + hash + `}`,
		"another payload": `{"seq":1,"kind":"done","payload":{"result":5},` + hash + `}`,
		"no number":       `{"seq":0,"kind":"done","payload":{},` + hash + `}`,
	} {
		var e Event
		if err := json.Unmarshal([]byte(text), &e); err == nil {
			t.Errorf("%s: taken as %+v", name, e)
		}
	}
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                  "",
		"\n \n":                             "",
		"one":                               "one",
		"one\ntwo\n":                        "two",
		"one\n  two  \r\n\t\n":              "two",
		"10 %\r20 %\r":                      "20 %",
		"x\n" + strings.Repeat("a", 300):    strings.Repeat("a", 200),
		"a" + strings.Repeat("\u00e9", 200): "a" + strings.Repeat("\u00e9", 99),
		"\xff\xfe":                          "\xff\xfe",
	} {
		done := journal.Done{Stdout: journal.Output{Kept: []byte("out")}, Stderr: journal.Output{Kept: []byte(text)}}
		cut, _ := withLastLine(journal.Event{Payload: done}).Payload.(journal.Done)
		got := string(cut.Stderr.Kept)
		if got != want || cut.Stdout.Kept != nil || utf8.ValidString(text) && !utf8.ValidString(got) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
