package net

import (
	"context"
	"encoding/json"
	"testing"
)

// What a handler has for its answer is in memory until the answer is encoded.
func TestOnAnsweredComesBehindTheAnswer(t *testing.T) {
	t.Parallel()
	made := make(chan string, 2)
	address, _ := serve(t, ServerConfig{Handlers: map[string]Handler{
		"a": func(_ context.Context, _ *Link, request Request) (any, error) {
			request.OnAnswered(func() { made <- "answered" })
			request.Proceed()
			return told{made}, nil
		},
	}})
	peer := dial(t, address)
	peer.send(`[0,{"no":1,"type":"a"}]`)
	peer.expect(`[1,{"no":1,"data":1}]`)
	if first, then := <-made, <-made; first != "encoded" || then != "answered" {
		t.Errorf("%s, then %s", first, then)
	}
	Request{}.OnAnswered(nil) // of no link
}

// told tells when it is made JSON.
type told struct{ made chan<- string }

func (d told) MarshalJSON() ([]byte, error) {
	d.made <- "encoded"
	return json.Marshal(1)
}
