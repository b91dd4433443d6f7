package main

import (
	"errors"
	"strings"
	"testing"

	"jobd/cmd/internal/history"
	jobnet "jobd/net"
)

func TestJournalThroughADaemon(t *testing.T) {
	t.Parallel()
	hash := strings.Repeat("0f", 32)
	newest := history.AnchorAnswer{Seq: 7, Hash: hash}
	older := jobnet.Refusal("unknown request type: 'journal-anchor'")
	const explained = "it does not serve its journal, because it is an older jobd, or the original; its folder can be read with --journal DIR: "
	relay := func(data any, refusal string) any {
		return map[string]any{"workers": []any{map[string]any{"name": "w", "address": "a:1", "data": data, "error": refusal}}}
	}
	for name, test := range map[string]struct {
		args   string
		answer any
		want   output
	}{
		"a worker":       {"journal anchor", newest, output{out: "7 " + hash + "\n"}},
		"through master": {"--master journal anchor", relay(newest, ""), output{out: "7 " + hash + " w\n"}},
		"an older worker": {"journal anchor", older, output{
			code: 1, err: "jobctl: " + explained + "127.0.0.1:PORT: " + string(older) + "\n",
		}},
		"an older worker of a master": {"--master journal anchor", relay(nil, string(older)), output{
			code: 1, err: "jobctl: worker 'w': " + explained + string(older) + "\n",
		}},
		"another error": {"journal anchor", errors.New("secret"), output{
			code: 1, err: "jobctl: 127.0.0.1:PORT: internal error\n",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := startDaemon(t, "", map[string]any{"journal-anchor": test.answer})
			jobctl{}.expect(t, d, test.want, strings.Fields(test.args)...)
		})
	}
}
