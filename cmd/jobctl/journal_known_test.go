package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"jobd/cmd/internal/history"
	jobnet "jobd/net"
	"jobd/net/api"
)

// A worker of an older version refuses kinds of events that it does not know, and has none of them:
// what asks for several kinds is told of the others.
func TestAnOlderWorkerThatDoesNotKnowAKind(t *testing.T) {
	t.Parallel()
	ends := endsOf(t)
	answer := func(data any) jobnet.Handler {
		return func(context.Context, *jobnet.Link, jobnet.Request) (any, error) { return data, nil }
	}
	handlers := map[string]jobnet.Handler{
		"journal-events": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			var q struct{ Kinds []string }
			if err := json.Unmarshal(request.Data, &q); err != nil {
				return nil, err
			}
			for _, newer := range []string{"cancelled", "retried"} {
				if slices.Contains(q.Kinds, newer) {
					return nil, jobnet.Refusef("unknown kind of event '%s'", newer)
				}
			}
			return api.Opened{Name: "node-1", Cursor: "c"}, nil
		},
		"journal-next": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
			if strings.Contains(string(request.Data), "state") {
				return history.Page{}, nil
			}
			return ends, nil
		},
		"journal-state": answer(api.Opened{Name: "node-1", Cursor: "state"}), "journal-close": answer("ok"), "journal-anchor": answer(map[string]any{}),
	}
	worker := []string{"--port", listen(t, jobnet.ServerConfig{Handlers: handlers})}
	handed := func(data any, err error) (any, error) {
		if err != nil {
			return map[string]any{"workers": []any{map[string]any{"name": "w", "address": "a:1", "error": err.Error()}}}, nil
		}
		return map[string]any{"workers": []any{map[string]any{"name": "w", "address": "a:1", "data": data}}}, nil
	}
	relayed := map[string]jobnet.Handler{}
	for typ, handler := range handlers {
		relayed[typ] = func(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
			return handed(handler(ctx, link, request))
		}
	}
	master := []string{"--master", "--port", listen(t, jobnet.ServerConfig{Handlers: relayed})}
	for name, daemon := range map[string][]string{"a worker": worker, "of a master": master} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for args, lines := range map[string]int{
				"journal log --kind cancelled,done,retried --output json":               4,
				"journal log --kind cancelled,done,retried --result fail --output json": 2,
				"journal log --kind cancelled,retried --output json":                    0,
			} {
				got := jobctl{}.run(t, append(slices.Clone(daemon), strings.Fields(args)...)...)
				if got.code != 0 || got.err != "" || strings.Count(got.out, "\n") != lines {
					t.Errorf("%s: %+v", args, got)
				}
			}
			got := jobctl{}.run(t, append(slices.Clone(daemon), "journal", "stats")...)
			if got.code != 0 || got.err != "" {
				t.Errorf("stats: %+v", got)
			}
		})
	}
}
