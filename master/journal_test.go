package master

import (
	"context"
	"encoding/json"
	"testing"

	jobnet "jobd/net"
	"jobd/net/api"
)

// A journal request reaches every worker, or the one that is named; what one answers does not
// depend on the others.
func TestJournalRequestsAreHandedOn(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{}, "s3cret")
	echo := func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
		return map[string]json.RawMessage{"got": request.Data}, nil
	}
	refuse := func(context.Context, *jobnet.Link, jobnet.Request) (any, error) {
		return nil, jobnet.Refusal("unknown journal cursor")
	}
	registered(t, address, "one", []string{"a"}, map[string]jobnet.Handler{"journal-next": echo})
	registered(t, address, "two", []string{"b"}, map[string]jobnet.Handler{"journal-next": refuse})
	registered(t, address, "old", []string{"c"}, nil)
	client := connect(t, address, jobnet.LinkConfig{Password: "s3cret"})

	expect(t, ask(t, client, "journal-next", map[string]any{"cursor": "x"}), `{"workers":[
		{"name":"one","data":{"got":{"cursor":"x"}}},
		{"name":"two","error":"unknown journal cursor"},
		{"name":"old","error":"unknown request type: 'journal-next'"}]}`)
	expect(t, ask(t, client, "journal-next", map[string]any{"worker": "two"}), `{"workers":[{"name":"two","error":"unknown journal cursor"}]}`)

	var all struct{ Workers []api.RelayedAnswer }
	if err := json.Unmarshal(ask(t, client, "journal-next", nil), &all); err != nil {
		t.Fatal(err)
	}
	expect(t, ask(t, client, "journal-next", map[string]any{"worker": all.Workers[0].Address}), `{"workers":[{"name":"one"}]}`)

	for data, want := range map[string]string{`{"worker":"three"}`: "worker 'three' not found", `{"worker":5}`: "'worker' must be string"} {
		if _, err := client.Request(within(t), "journal-next", json.RawMessage(data)); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %q", data, err, want)
		}
	}
}
