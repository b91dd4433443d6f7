package main

import (
	"testing"

	"jobd/journal"
)

func TestDescribeLaunchersOfTargets(t *testing.T) {
	t.Parallel()
	launchers := map[string][]string{"sms": {"/srv/sms", "{id}"}, "a b": {"/srv/ab"}}
	for want, payload := range map[string]journal.Payload{
		`name=n version=1 pid=1 targets="a b:1" launcher=/x launchers="a b: /srv/ab; sms: /srv/sms {id}"`: journal.Opened{
			Name: "n", Version: "1", Pid: 1, Targets: map[string]int{"a b": 1}, Launcher: []string{"/x"}, Launchers: launchers,
		},
		`file=/f digest=00 launchers="a b: /srv/ab; sms: /srv/sms {id}" by=SIGHUP`: journal.Reloaded{
			File: "/f", Digest: "00", By: "SIGHUP", Launchers: launchers,
		},
	} {
		if got := describe(payload); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}
