//go:build failpoints

package main

import (
	"slices"

	jobexec "jobd/exec"
)

// loops are the names under which the pulse knows the loops. At the failpoint NAME-hangs the loop of
// that name never comes to the end of its work.
var loops = []string{"worker", "mirror", "runner link", "accept"}

const hangs = "-hangs"

// isHang tells whether a failpoint is one at which a loop hangs.
func isHang(name string) bool {
	return slices.ContainsFunc(loops, func(loop string) bool { return loop+hangs == name })
}

// failPulse makes a pulse whose loop hangs where a test says so.
func failPulse(journalDir, name string, p jobexec.Pulse) jobexec.Pulse {
	return hangingPulse{p, readFailpoint(journalDir), name + hangs}
}

type hangingPulse struct {
	jobexec.Pulse
	point *failpoint
	name  string
}

// Works implements jobexec.Pulse.
func (h hangingPulse) Works() {
	h.Pulse.Works()
	if h.point.due(h.name) {
		select {}
	}
}
