package master

import (
	"context"
	"encoding/json"
	"testing"

	jobnet "jobd/net"
)

// An id that JavaScript does not hold exactly passes both ways as a string of its digits, and is
// not rounded.
func TestIdsOf64BitsPassTheMaster(t *testing.T) {
	t.Parallel()
	const first, last = "-9223372036854775808", "9223372036854775807"
	address, _, _ := serveMaster(t, Config{}, "s3cret")
	got := make(chan string, 10)
	registered(t, address, "w", []string{"a"}, map[string]jobnet.Handler{
		"run-manual": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			got <- string(request.Fields()["ids"])
			return json.RawMessage(`{"jobs":{"` + first + `":"one","` + last + `":"two","-5":"three"}}`), nil
		},
		"send-signal": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			got <- string(request.Fields()["jobs"])
			return json.RawMessage(`{"` + first + `":true,"` + last + `":false}`), nil
		},
	})
	client := clientOf(t, address)
	expect(t, ask(t, client, "run-manual", json.RawMessage(
		`{"jobs":[{"id":"`+first+`","target":"a"},{"id":"`+last+`","target":"a"},{"id":-5,"target":"a"}]}`)),
		`{"jobs":{"`+first+`":"one","`+last+`":"two","-5":"three"}}`)
	if ids, want := <-got, `["`+first+`","`+last+`",-5]`; ids != want {
		t.Errorf("the worker got %s, want %s", ids, want)
	}
	expect(t, ask(t, client, "send-signal", json.RawMessage(
		`{"jobs":[{"id":"`+first+`","signal":0,"target":"a"},{"id":"`+last+`","signal":15,"target":"a"}]}`)),
		`{"`+first+`":true,"`+last+`":false}`)
	if jobs, want := <-got, `{"`+first+`":0,"`+last+`":15}`; jobs != want {
		t.Errorf("the worker got %s, want %s", jobs, want)
	}
	for _, id := range []string{`9223372036854775807`, `"5"`, `"9223372036854775808"`, `"x"`, `1.5`} {
		_, err := client.Request(within(t), "run-manual", json.RawMessage(`{"jobs":[{"id":`+id+`,"target":"a"}]}`))
		if err == nil || err.Error() != "'id' must be integer" {
			t.Errorf("%s: %v", id, err)
		}
	}
}
