package net

import (
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Regression: every request that waited for its turn had a goroutine, which the collector looked
// through over and over; 16 links made 14,000 of them, and everybody waited.
func TestRequestsInLineTakeNoGoroutines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const requests = 100
		release := make(chan struct{})
		peer := accepted(t, ServerConfig{Handlers: map[string]Handler{
			"wait": func(context.Context, *Link, Request) (any, error) { <-release; return "ok", nil },
		}})
		go func() {
			for no := range requests {
				peer.send(fmt.Sprintf(`[0,{"no":%d,"type":"wait"}]`, no))
			}
			peer.send(`[2]`)
		}()
		peer.expect(`[3]`) // all of them were read
		synctest.Wait()
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		all := strings.Split(string(stacks), "\n\n")
		bubble := regexp.MustCompile(`synctest bubble \d+\]`).FindString(all[0]) // this one's: other tests run beside it
		serving := slices.DeleteFunc(all, func(stack string) bool {
			return !strings.Contains(stack, bubble) || !strings.Contains(stack, "(*Link).serve.func")
		})
		if len(serving) != 1 {
			t.Errorf("%d goroutines serve one link, want one:\n%s", len(serving), strings.Join(serving, "\n\n"))
		}
		close(release)
		for no := range requests {
			peer.expect(fmt.Sprintf(`[1,{"no":%d,"data":"ok"}]`, no)) // in turn
		}
	})
}

// Requests that wait for their turn hold a bounded part of the memory: beyond it the link is not
// read.
func TestRequestsInLineAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		peer := accepted(t, ServerConfig{Handlers: map[string]Handler{
			"wait": func(context.Context, *Link, Request) (any, error) { <-release; return "ok", nil },
		}})
		_ = peer.SetDeadline(time.Time{})
		const requests, size = 20, 10_000
		sent := make(chan int, requests)
		go func() {
			for no := range requests {
				peer.send(fmt.Sprintf(`[0,{"no":%d,"type":"wait","data":"%s"}]`, no, strings.Repeat("x", size)))
				sent <- no
			}
		}()
		synctest.Wait()
		if n := len(sent); n < waitingBytes/size || n > waitingBytes/size+3 {
			t.Errorf("%d requests of %d bytes are read while the first is served", n, size)
		}
		close(release)
		for no := range requests {
			peer.expect(fmt.Sprintf(`[1,{"no":%d,"data":"ok"}]`, no))
		}
	})
}
