package net

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Regression: a dozen registrations of 14 MiB took 1.5 GiB. What many send at once is bounded for
// all of them together, and who asks little is answered beside them.
func TestWhatPeersSendIsBoundedInMemory(t *testing.T) {
	t.Parallel()
	const size = 14 << 20
	peers, mayTake := 8, 300<<20
	if raceDetected { // which takes several times the memory and the time for itself
		peers, mayTake = 3, 900<<20
	}
	tests := map[string]string{ // of 14 MiB each
		"unused data":     `"x":"` + strings.Repeat("x", size) + `"`,
		"a million names": `"targets":["t"` + strings.Repeat(`,"tttttttt"`, size/len(`,"tttttttt"`)) + `]`,
		"never complete":  `"x":"` + strings.Repeat("x", size),
	}
	for name, data := range tests {
		t.Run(name, func(t *testing.T) {
			address := serveElsewhere(t, "measured")
			var all sync.WaitGroup
			for range peers {
				peer := dial(t, address)
				all.Go(func() {
					_, _ = io.WriteString(peer, `[0,{"no":1,"type":"register-worker","password":"s3cret"}]`+"\x04")
					_, _ = io.WriteString(peer, `[0,{"no":2,"type":"register-worker","data":{`+data)
					if name != "never complete" {
						_, _ = io.WriteString(peer, "}}]\x04")
						peer.receive()
						peer.receive()
					}
				})
			}
			honest := dial(t, address)
			honest.send(`[0,{"no":1,"type":"peak","password":"s3cret"}]`)
			honest.receive()
			all.Wait()
			honest.send(`[0,{"no":1,"type":"peak"}]`)
			answer := honest.receive()
			peak, err := strconv.Atoi(strings.Split(answer, `"`)[5])
			if err != nil {
				t.Fatalf("%s: %v", answer, err)
			}
			t.Logf("%d MiB", peak>>10)
			if peak<<10 > mayTake {
				t.Errorf("the server took %d MiB", peak>>10)
			}
		})
	}
}

// Many answers to one peer that takes none are not all made, and none of them hinders others.
func TestAnswersAreMadeOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		made := 0
		server := NewServer(ServerConfig{Handlers: map[string]Handler{
			"long": func(_ context.Context, _ *Link, request Request) (any, error) {
				request.Proceed()
				return counted{&made, strings.Repeat("x", 2<<20)}, nil
			},
			"short": constant("ok", nil),
		}})
		peer, other := acceptedBy(t, server), acceptedBy(t, server)
		go func() {
			for no := range 100 {
				_, _ = fmt.Fprintf(peer, `[0,{"no":%d,"type":"long"}]`+"\x04", no+1)
			}
		}()
		synctest.Wait()
		if made > 2 {
			t.Errorf("%d answers were made", made)
		}
		begun := time.Now()
		go other.send(`[0,{"no":1,"type":"short"}]`)
		other.expect(`[1,{"no":1,"data":"ok"}]`)
		if took := time.Since(begun); took > 0 {
			t.Errorf("the other peer waited %v", took)
		}
	})
}

// Regression: two peers that each had much to send, and pinged each other, waited for each other to
// read.
func TestPingsAreReadBesideALongFrame(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, peer := scripted(t, LinkConfig{MaxMessageSize: 1000})
		result := request(l, "a", strings.Repeat("x", 2000)) // more than may wait
		synctest.Wait()
		go func() {
			for range mostQueued / 2 {
				peer.send(`[2]`)
			}
			peer.send(`[1,{"no":0,"error":"read"}]`)
		}()
		synctest.Wait()
		if n := l.reads.Load(); n != mostQueued/2+1 {
			t.Errorf("%d of %d packets were read", n, mostQueued/2+1)
		}
		_ = l.Close()
		<-result
	})
}
