package pages

import (
	"testing"

	"jobd/tests/harness"
)

func TestMasked(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"a  | 10:02:17  | 3m12s |\n---+---":         "a | TIME | LONG |\n-+-",
		"since 2026-11-22 10:02 by 127.0.0.1:41234": "since TIME by ADDRESS",
		"job 117 failed with 3":                     "job 117 failed with 3",
		"pid 4711, token=@k3vfq7zta4 12.3 MiB":      "pid PID, token=@k3vfq7zta4 SIZE",
		"token=@k3vfq7zta":                          "token=@TOKEN",
	} {
		if got := harness.Masked(text); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}
