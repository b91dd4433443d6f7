package net

import (
	"context"
	"errors"
	"fmt"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// Regression: a peer that sent nonsense as fast as it could, behind the password, took the
// processors from all others.
func TestNonsenseIsReadSlowly(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, frame, answer string }{
		{"not JSON", `{`, ""},
		{"no message", `7`, `[1,{"no":0,"error":"JSON array expected, got: 7"}]`},
		{"no such request", `[0,{"no":1,"type":"nope"}]`, `[1,{"no":1,"error":"unknown request type: 'nope'"}]`},
		{"a response that nobody waits for", `[1,{"no":7,"data":1}]`, ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const excess = 100
				peer := accepted(t, ServerConfig{})
				_ = peer.SetDeadline(time.Time{})
				begun := time.Now()
				go func() {
					for range nonsenseAtOnce + excess {
						peer.send(test.frame)
					}
					peer.send(`[2]`)
				}()
				if test.answer != "" {
					for range nonsenseAtOnce + excess {
						peer.expect(test.answer)
					}
				}
				peer.expect(`[3]`) // it is served all the same
				if took := time.Since(begun); took != excess*nonsenseEvery {
					t.Errorf("it took %v, want %v", took, excess*nonsenseEvery)
				}
			})
		})
	}
}

// Who sends nonsense now and then is not slowed down.
func TestSomeNonsenseIsFree(t *testing.T) {
	t.Parallel()
	var n nonsense
	now := time.Now()
	for i := range 1000 {
		if due := n.due(now); due != 0 {
			t.Fatalf("message %d has to wait %v", i, due)
		}
		now = now.Add(nonsenseEvery)
	}
}

// Answers that come too late are no nonsense: who waits for a slow worker would have it wait even
// longer.
func TestLateAnswersAreReadAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		l := NewLink(theirs, LinkConfig{})
		run(t, l)
		peer := pipeEnd(t, ours)
		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun, received := time.Now(), make(chan struct{})
		go func() {
			peer.receive()
			close(received)
			time.Sleep(2 * time.Second) // the bubble's clock
			for no := range 10 * nonsenseAtOnce {
				peer.send(fmt.Sprintf(`[1,{"no":%d,"data":1}]`, no+1))
			}
			peer.send(`[2]`)
		}()
		if _, err := l.Request(impatient, "slow", nil); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("request: %v", err)
		}
		<-received
		peer.expect(`[3]`)
		if took := time.Since(begun); took != 2*time.Second {
			t.Errorf("they were read within %v, want at once", took)
		}
	})
}
