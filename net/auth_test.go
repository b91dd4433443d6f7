package net

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"jobd/store/storetest/must"
)

// serveVariable has the test's program be a server with few descriptors.
const (
	serveVariable  = "JOBNET_TEST_SERVE"
	fewDescriptors = 160
)

// serveWithFewDescriptors tells its address on its output, and ends with its input. Its handler
// opens as many files as a daemon may need.
func serveWithFewDescriptors() {
	if kind := os.Getenv(serveVariable); kind != "measured" {
		limit := syscall.Rlimit{Cur: fewDescriptors, Max: fewDescriptors}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			panic(err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	config := ServerConfig{AlwaysAllowLocalhost: os.Getenv(serveVariable) == "trusted", Password: "s3cret", Handlers: map[string]Handler{
		"work": func(context.Context, *Link, Request) (any, error) {
			for range fewDescriptors / 8 {
				file, err := os.Open(os.DevNull)
				if err != nil {
					return nil, Refusal(err.Error())
				}
				defer file.Close()
			}
			return "ok", nil
		},
		"register-worker": func(_ context.Context, _ *Link, request Request) (any, error) {
			targets := 0
			from := &Reader{Fields: request.Fields()}
			from.Each("targets", func(json.RawMessage) { targets++ })
			return targets, from.Err
		},
		"peak": func(context.Context, *Link, Request) (any, error) {
			status, err := os.ReadFile("/proc/self/status")
			if err != nil {
				return nil, err
			}
			_, peak, _ := strings.Cut(string(status), "VmHWM:")
			return strings.Fields(peak)[0], nil // KiB
		},
	}}
	go func() { _ = NewServer(config).Serve(context.Background(), listener) }()
	fmt.Println(listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// serveElsewhere starts such a server in a process of its own.
func serveElsewhere(t *testing.T, kind string) (address string) {
	t.Helper()
	process := exec.Command(os.Args[0])
	process.Env = append(os.Environ(), serveVariable+"="+kind)
	process.Stderr = os.Stderr
	input := must.Get(process.StdinPipe())(t)
	output := must.Get(process.StdoutPipe())(t)
	must.Do(t, process.Start())
	t.Cleanup(func() { _ = input.Close(); _ = process.Wait() })
	address = must.Get(bufio.NewReader(output).ReadString('\n'))(t)
	return strings.TrimSpace(address)
}

// Regression: peers that gave no password, and those on the same host that said nothing at all,
// used up the process's descriptors: nobody else was let in, and no file could be opened.
func TestDescriptorsAreKeptForWork(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"trusted", "with a password"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			address := serveElsewhere(t, kind)
			for round := range 4 {
				for range fewDescriptors {
					dial(t, address)
				}
				honest := dial(t, address)
				honest.send(`[0,{"no":1,"type":"work","password":"s3cret"}]`)
				if answer := honest.receive(); answer != `[1,{"no":1,"data":"ok"}]` {
					t.Fatalf("round %d: answer %s", round, answer)
				}
			}
		})
	}
}

// A link that has asked something is not closed for those that come later; they are told no.
func TestLinksInUseAreNotClosed(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{maxLinks: 5, Handlers: map[string]Handler{"ok": constant("ok", nil)}})
	var used []*wire
	for range 5 {
		peer := dial(t, address)
		peer.send(`[0,{"no":1,"type":"ok"}]`)
		peer.expect(`[1,{"no":1,"data":"ok"}]`)
		used = append(used, peer)
	}
	dial(t, address).expectEnd()
	for _, peer := range used {
		peer.send(`[2]`)
		peer.expect(`[3]`)
	}
}

// Sixteen characters can't be guessed online, whatever they are made of; fifteen may be.
func TestWhichPasswordsAreShort(t *testing.T) {
	t.Parallel()
	for password, short := range map[string]bool{"123456789012345": true, "1234567890123456": false, "äöüßäöüßäöüßäöü": true, "äöüßäöüßäöüßäöüß": false} {
		if got := IsShort(password); got != short {
			t.Errorf("%q is short: %t, want %t", password, got, short)
		}
	}
}
