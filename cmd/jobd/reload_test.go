package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/store/storetest/must"
)

// Jobs of a target that is gone from the file end by what was said of them; a section that is gone
// from a file that has its target still says nothing any more.
func TestTermsOfTargetsThatAreGone(t *testing.T) {
	t.Parallel()
	before := must.Get(fromFile(t, "use_columns = all\n[targets]\na = 1\nb = 1\nc = 1\nd = 1\n[target a]\nattempts = 5\n[target b]\ntimeout = 1\n[target c]\ntimeout = 1\n[target d]\ntimeout = 1\n"))(t)
	now := must.Get(fromFile(t, "[targets]\na = 1\nc = 1\n[target a]\nattempts = 1\ntimeout = 2\n"))(t)
	r := &reloader{started: before, current: before, inForce: before.terms(before.time.uses)}
	a, b := noTerms, noTerms
	a.Attempts, a.Timeout, b.Timeout = 1, 2*time.Second, time.Second
	got := r.terms(now, []string{"a", "b", "c", "added by a client"})
	if diff := cmp.Diff(map[string]jobexec.Terms{"a": a, "b": b}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestKeysThatTakeEffectAtOnce(t *testing.T) {
	t.Parallel()
	c := mustParse(t, with(), nil)
	for key, want := range map[string]bool{
		"targets.a": true, "target.a.timeout": true, "target.a.b.launcher.env.X": true, "launcher": true, "launcher.cwd": true,
		"launcher.env.X": true, "launcher_split": true, "time_zone": true, "missed": true, "log_level_file": true,
		"use_columns": false, "prefetch": false, "on_crash": false, "log_file": false, "mysql_host": false, "master_host": false,
	} {
		if got := c.read.IsLive(key); got != want {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
}
