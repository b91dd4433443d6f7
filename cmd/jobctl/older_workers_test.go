package main

import (
	"strings"
	"testing"
)

// A master of this version whose workers are all older or the original's: why they don't answer is
// said, and what they might know is not said to be missing.
func TestAMasterThatHasOlderWorkersOnly(t *testing.T) {
	t.Parallel()
	older := map[string]any{"workers": []any{map[string]any{"name": "w", "address": "a:1", "error": "unknown request type: 'x'"}}}
	master := startDaemon(t, "", map[string]any{"cancel": older, "explain": older, "status": map[string]any{"workers": []any{}}})
	for args, want := range map[string]string{
		"cancel 5": "no worker could be asked",
		"show 5":   "row: not known",
	} {
		got := jobctl{}.run(t, append([]string{"--master", "--port", master.port}, strings.Fields(args)...)...)
		if got.code == 0 || !strings.Contains(got.out+got.err, want) || strings.Contains(got.out, "row: none") ||
			!strings.Contains(got.err, "worker 'w': it can't") || !strings.Contains(got.err, "an older jobd, or the original") {
			t.Errorf("%s: %+v", args, got)
		}
	}
}
