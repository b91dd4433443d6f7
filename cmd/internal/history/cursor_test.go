package history

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
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
		if got != total {
			t.Errorf("%d items, want %d", got, total)
		}
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
		if err := c.Close("somebody else", id); !errors.Is(err, ErrUnknown) {
			t.Errorf("closed by somebody else: %v", err)
		}
		if err := c.Close("me", id); err != nil {
			t.Error(err)
		}
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
		if len(c.open) != 1 {
			t.Errorf("after a minute %d are open that nobody has asked for", len(c.open)-1)
		}
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
			if _, err := c.Next(link, "master", ids[0]); err != nil {
				t.Fatalf("a stream that is asked for has ended: %v", err)
			}
		}
		other := open("modest")
		for range maxCursors {
			ids[maxCursors-1] = open("greedy")
			if _, err := c.Next(link, "master", ids[0]); err != nil {
				t.Fatalf("a stream that is asked for has ended: %v", err)
			}
		}
		for _, id := range []string{ids[0], ids[maxCursors-1], other} {
			if _, err := c.Next(link, "master", id); err != nil {
				t.Error(err)
			}
		}
		if _, err := c.Next(link, "master", ids[1]); !errors.Is(err, ErrUnknown) {
			t.Errorf("the stream that nobody has asked for longest: %v, want %v", err, ErrUnknown)
		}
		end()
		synctest.Wait()
	})
}
