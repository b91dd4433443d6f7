package main

import (
	"strings"
	"testing"
	_ "time/tzdata" // Berlin, wherever this runs
)

// All flags that take a time take the same.
func TestEveryTimeFlagRefusesTheSame(t *testing.T) {
	t.Parallel()
	dir := oneDay(t)
	for _, args := range []string{
		"log --since", "log --until", "conflicts --since", "stats --since", "stats --until", "export --since", "state --at", "reapply --since",
	} {
		for _, text := range []string{"20261121", "1795299125200", "5"} {
			words := append(append([]string{"journal", "--journal", dir}, strings.Fields(args)...), text)
			if got := (jobctl{}).run(t, words...); got.code != 2 || !strings.Contains(got.err, `"`+text+`" is not allowed: a number is unix time`) {
				t.Errorf("%s %s: %+v", args, text, got)
			}
		}
	}
	for args, want := range map[string]output{
		"log --since 2026-11-20T10:00:17Z --until 2026-11-20T10:00:16Z": {2, "", "jobctl: --since 2026-11-20T10:00:17Z is not before --until 2026-11-20T10:00:16Z\n"},
		"stats --since 1h --until 1h":                                   {2, "", "jobctl: --since 2026-11-20T11:00:00Z is not before --until 2026-11-20T11:00:00Z\n"},
	} {
		if got := (jobctl{}).run(t, append([]string{"journal", "--journal", dir}, strings.Fields(args)...)...); got != want {
			t.Errorf("%s: %+v, want %+v", args, got, want)
		}
	}
	got := jobctl{}.run(t, "journal", "state", "--journal", dir, "--at", "2100-01-01")
	if got.code != 0 || got.err != "jobctl: --at is in the future: this is how it stands now\n" {
		t.Errorf("%+v", got)
	}
}
