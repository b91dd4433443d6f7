package main

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	jobexec "jobd/exec"
	"jobd/store"
)

func TestGearmanKeys(t *testing.T) {
	t.Parallel()
	alone := []string{"--config=", "--host=127.0.0.1", "--port=1", "--store=sqlite", "--sqlite-path=jobs.db", "--gearman-listen=127.0.0.1:4730"}
	cases := []struct {
		name string
		args []string
		want string // "": it is taken
	}{
		{"neither launcher nor targets", alone, ""},
		{"an address and a network", append(slices.Clone(alone), "--gearman-allow=10.0.0.0/8, ::ffff:192.168.1.7"), ""},
		{"a launcher of its own", with("--gearman-listen=/run/jobd/gearman.sock"), ""},
		{"no address", append(slices.Clone(alone), "--gearman-allow=localhost"), "gearman_allow"},
		{"a port alone", append(slices.Clone(alone[:5]), "--gearman-listen=4730"), "gearman_listen"},
		{"keys without gearman_listen", with("--gearman-concurrency=5"), "it has no effect without gearman_listen"},
		{"a launcher without gearman_listen", append(slices.Clone(alone[:5]), "--launcher=gearman", "--targets.a=1"), "no Gearman worker can connect"},
		{"too few columns", append(slices.Clone(alone), "--use-columns=run_at"), "allowed: a list that has them, or all"},
		{"a long packet", append(slices.Clone(alone), "--gearman-max-packet=1GiB"), "gearman_max_packet"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, err := parseConfig(c.args, nil, t.Output())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
	c := mustParse(t, append(slices.Clone(alone), "--gearman-allow=::ffff:10.0.0.7"), nil)
	if c.launcher.runs != jobexec.ModeGearman || !slices.Equal(c.time.uses, store.TimeColumns()) || !c.submits() ||
		!slices.Equal(c.gearman.allow, []netip.Prefix{netip.MustParsePrefix("10.0.0.7/32")}) {
		t.Errorf("read as %+v, columns %v", c.gearman, c.time.uses)
	}
}
