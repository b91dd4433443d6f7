package net

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"jobd/store/storetest/must"
)

// exchange is one line of testdata/conformance: what was sent to the original and what it answered.
type exchange struct {
	Name    string
	Send    []string
	Receive []json.RawMessage
	Closed  bool
}

func recorded(t *testing.T, file string) []exchange {
	t.Helper()
	content := must.Get(os.ReadFile(filepath.Join("..", "testdata", "conformance", file)))(t)
	var exchanges []exchange
	for line := range bytes.Lines(content) {
		var e exchange
		must.Do(t, json.Unmarshal(line, &e))
		exchanges = append(exchanges, e)
	}
	return exchanges
}

// The recorded exchanges that concern the protocol alone; the daemons' own tests replay all of
// them.
func TestRecordedExchanges(t *testing.T) {
	t.Parallel()
	handlers := map[string]Handler{"poll": constant("ok", nil), "pause": constant(nil, Refusal("invalid target 'zzz'"))}
	ofPlain := []string{
		"ping", "ping with extra data", "unknown type", "missing no", "missing type", "no is a string", "no is a float", "no is zero",
		"data is a bool", "password is a number", "request without body", "json object instead of array", "json number", "json string", "json null",
		"empty array", "unknown message type", "broken json then ping", "empty frame then ping", "unexpected response then ping", "poll all",
	}
	files := []struct {
		file   string
		config ServerConfig
		chosen []string // nil: all
	}{
		{"password.jsonl", ServerConfig{Handlers: handlers, Password: "s3cret"}, nil},
		{"localhost.jsonl", ServerConfig{Handlers: handlers, Password: "s3cret", AlwaysAllowLocalhost: true}, nil},
		{"plain.jsonl", ServerConfig{Handlers: handlers}, ofPlain},
	}
	for _, file := range files {
		replayed := 0
		for _, e := range recorded(t, file.file) {
			if file.chosen != nil && !slices.Contains(file.chosen, e.Name) {
				continue
			}
			replayed++
			t.Run(file.file+"/"+e.Name, func(t *testing.T) {
				t.Parallel()
				address, _ := serve(t, file.config)
				replay(t, dial(t, address), e)
			})
		}
		if replayed == 0 || file.chosen != nil && replayed != len(file.chosen) {
			t.Errorf("%s: %d exchanges replayed", file.file, replayed)
		}
	}
}

func replay(t *testing.T, peer *wire, e exchange) {
	t.Helper()
	peer.send(e.Send...)
	for _, want := range e.Receive {
		got := peer.receive()
		if !reflect.DeepEqual(decoded(t, []byte(got)), decoded(t, want)) {
			t.Fatalf("received %s, want %s", got, want)
		}
	}
	if e.Closed {
		peer.expectEnd()
	}
}

func decoded(t *testing.T, text []byte) (value any) {
	t.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return value
}
