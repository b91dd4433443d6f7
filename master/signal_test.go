package master

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	jobnet "jobd/net"
	"jobd/net/api"
	"jobd/store/storetest/must"
)

// A worker is asked about many signals in parts; one part that fails says nothing of the others.
func TestManySignalsGoInParts(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{}, "s3cret")
	for _, fails := range []bool{false, true} {
		target := fmt.Sprint(fails)
		registered(t, address, target, []string{target}, map[string]jobnet.Handler{
			"send-signal": func(_ context.Context, _ *jobnet.Link, request jobnet.Request) (any, error) {
				var data api.Signals
				if err := json.Unmarshal(request.Data, &data); err != nil {
					return nil, err
				}
				if len(data.Jobs) > 10_000 || fails && data.Jobs[1] == 0 {
					return nil, jobnet.Refusal("too many")
				}
				delivered := make(map[string]bool)
				for id := range data.Jobs {
					delivered[fmt.Sprint(id)] = true
				}
				return delivered, nil
			},
		})
	}
	client := clientOf(t, address)
	ask(t, client, "status", nil)
	const count = 25_000
	for _, target := range []string{"false", "true"} {
		jobs := make([]map[string]any, count)
		for i := range jobs {
			jobs[i] = map[string]any{"id": i + 1, "signal": 15, "target": target}
		}
		var answer map[string]json.RawMessage
		must.Do(t, json.Unmarshal(ask(t, client, "send-signal", map[string]any{"jobs": jobs}), &answer))
		var errors map[string]string
		if answer["errors"] != nil {
			must.Do(t, json.Unmarshal(answer["errors"], &errors))
			delete(answer, "errors")
		}
		delivered := 0
		for _, done := range answer {
			if string(done) == "true" {
				delivered++
			}
		}
		want := map[string]int{"false": count, "true": 10_000}[target]
		if delivered != want || len(errors) != count-want {
			t.Errorf("%s: %d delivered, %d failed, want %d", target, delivered, len(errors), want)
		}
	}
}
