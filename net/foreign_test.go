package net

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"jobd/store/storetest/must"
)

// A web page must not be able to send a worker on its reader's machine a request in the body of one
// of HTTP.
func TestNothingOfHTTPIsRun(t *testing.T) {
	t.Parallel()
	ran := make(chan string, 100)
	address, _ := serve(t, ServerConfig{Password: "s3cret", AlwaysAllowLocalhost: true, Handlers: map[string]Handler{
		"pause": func(_ context.Context, _ *Link, request Request) (any, error) { ran <- request.Type; return "ok", nil },
	}})
	const body = "\x04[0,{\"no\":1,\"type\":\"pause\"}]\x04"
	for _, method := range []string{
		"GET", "POST", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT", // and what a page may make up only where the answer to OPTIONS allows it
	} {
		t.Run(method, func(t *testing.T) {
			request := must.Get(http.NewRequestWithContext(within(t), method, "http://"+address+"/", strings.NewReader(body)))(t)
			request.Header.Set("X-Frame", strings.TrimSpace(body[1:len(body)-1]))
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			if response, err := transport.RoundTrip(request); err == nil {
				defer response.Body.Close()
				answer, _ := io.ReadAll(response.Body)
				t.Errorf("answered %s", answer)
			}
		})
	}
	select {
	case typ := <-ran:
		t.Errorf("%s was run", typ)
	default:
	}
}

func TestOtherProtocolsAreClosedAtOnce(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{"ok": constant("ok", nil)}})
	const frame = "\x04[0,{\"no\":1,\"type\":\"ok\"}]\x04"
	for name, sent := range map[string]string{
		"TLS": "\x16\x03\x01", "SSH": "SSH-2.0-x\r\n", "binary": "\x00\xff\xfe\x01", "HTTP, not all of it": "GET / HT",
		"blank lines first": "\r\n\r\nGET / HTTP/1.1\r\n" + frame, "an empty frame first": "\x04GET /" + frame, "nothing": "\x00" + frame,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			peer := dial(t, address)
			_, _ = io.WriteString(peer, sent)
			rest, err := io.ReadAll(peer) // a reset is an end, too
			if len(rest) > 0 || err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("received %q, error %v", rest, err)
			}
		})
	}
}

// What begins as JSON may have line breaks, and may be broken.
func TestOurProtocolIsRecognised(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{"echo": echo}})
	for _, sent := range []string{
		"", " \n", "[0,{no:1}]", "nonsense", "-", "\"a / HTTP/1.1", "[\n\n", "[0\n,\r\n", "true\n", "[1, HTTP/x\n", "[ / /1.1\n",
	} {
		t.Run(fmt.Sprintf("%q", sent), func(t *testing.T) {
			t.Parallel()
			peer := dial(t, address)
			peer.send(sent, "[\n0,\n{\"no\":1,\"type\":\"echo\",\"data\":\"GET / HTTP/1.1\"}\n]")
			for range 2 { // the first may have been answered with a complaint
				if answer := peer.receive(); !strings.Contains(answer, `"no":0`) {
					if answer != `[1,{"no":1,"data":"GET / HTTP/1.1"}]` {
						t.Errorf("answer %s", answer)
					}
					return
				}
			}
			t.Error("no answer")
		})
	}
}
