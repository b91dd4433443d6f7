package net

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// Regression: every request that waited for its turn had a goroutine and its memory; 16 links made
// 14,000 of them, and everybody waited. A link is not read on while a request waits for its turn.
func TestRequestsInLineAreNotRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		peer := accepted(t, ServerConfig{Handlers: map[string]Handler{
			"wait": func(context.Context, *Link, Request) (any, error) { <-release; return "ok", nil },
		}})
		_ = peer.SetDeadline(time.Time{})
		const requests = 20
		sent := make(chan int, requests)
		go func() {
			for no := range requests {
				peer.send(fmt.Sprintf(`[0,{"no":%d,"type":"wait"}]`, no))
				sent <- no
			}
		}()
		synctest.Wait()
		if n := len(sent); n != 2 {
			t.Errorf("%d requests are read while the first is served", n)
		}
		close(release)
		for no := range requests {
			peer.expect(fmt.Sprintf(`[1,{"no":%d,"data":"ok"}]`, no)) // in turn
		}
	})
}
