package net

import (
	"errors"
	"fmt"
	"testing"

	"jobd/store/storetest/must"
)

// A peer that asks for codes gets one with each error that answers a request; one that does not gets
// what it always got.
func TestErrorsBearCodesForThoseWhoAsk(t *testing.T) {
	t.Parallel()
	address, _ := serve(t, ServerConfig{Password: "s3cret", AlwaysAllowLocalhost: true, Handlers: map[string]Handler{
		"refuse":  constant(nil, Refusal("no")),
		"invalid": constant(nil, fmt.Errorf("read: %w", Refusal("bad").With(CodeInvalid))),
		"broken":  constant(nil, errors.New("disk")),
	}})
	peer := dial(t, address)
	for typ, want := range map[string]string{
		"refuse": `"error":"no","code":"refused"`, "invalid": `"error":"bad","code":"invalid-data"`,
		"broken": `"error":"internal error","code":"internal"`, "nope": `"error":"unknown request type: 'nope'","code":"unknown-request"`,
	} {
		peer.send(`[0,{"no":1,"type":"` + typ + `"},"codes"]`)
		peer.expect(`[1,{"no":1,` + want + `}]`)
	}
	for _, further := range []string{`,"code"`, `,["codes"]`, `,null,"codes"`, ``} {
		peer.send(`[0,{"no":1,"type":"invalid"}` + further + `]`)
		peer.expect(`[1,{"no":1,"error":"bad"}]`)
	}
}

func TestLinkKnowsErrorsByCode(t *testing.T) {
	t.Parallel()
	l, peer := scripted(t, LinkConfig{Codes: true})
	for answer, want := range map[string]Code{
		`"error":"x","code":"over-limit"`: CodeLimit, `"error":"x","code":"of the future"`: "of the future",
		`"error":"x"`: CodeRefused, `"error":"x","code":7`: CodeRefused,
		`"error":"invalid password"`: CodePassword, `"error":"unknown request type: 'a'"`: CodeUnknown,
		`"error":"shutting down"`: CodeStopping, `"error":"internal error"`: CodeInternal,
	} {
		failed := make(chan error, 1)
		go func() {
			_, err := l.Request(t.Context(), "a", nil)
			failed <- err
		}()
		sent := peer.receiveRequest()
		peer.send(fmt.Sprintf(`[1,{"no":%d,%s}]`, sent.No, answer))
		if err := <-failed; CodeOf(err) != want {
			t.Errorf("%s: %v has the code %s, want %s", answer, err, CodeOf(err), want)
		}
	}
	if got := CodeOf(errors.New("anything else")); got != CodeInternal {
		t.Errorf("an error of no peer has the code %s", got)
	}
}

func TestRequestForCodesIsAFurtherItem(t *testing.T) {
	t.Parallel()
	for _, data := range []any{nil, 5, Encoded{[]byte("5")}} {
		parts := must.Get(encodeRequest(requestBody{No: 1, Type: "a"}, data, ","+wantsCodes))(t)
		frame := ""
		for _, part := range parts {
			frame += string(part)
		}
		want := `[0,{"no":1,"type":"a","data":5},"codes"]` + "\x04"
		if data == nil {
			want = `[0,{"no":1,"type":"a"},"codes"]` + "\x04"
		}
		if frame != want {
			t.Errorf("%s, want %s", frame, want)
		}
	}
}
