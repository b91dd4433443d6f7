package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"

	"jobd/cmd/internal/pulse"
	jobnet "jobd/net"
)

// hangVariable says which loop of this process is to hang, and at the how manieth piece of its work,
// as in "workers:2".
const hangVariable = "TEST_HANGS"

// hangPulse makes a pulse whose loop hangs where a test says so.
func hangPulse(name string, loop *pulse.Loop) jobnet.Pulse {
	of, nth, found := strings.Cut(os.Getenv(hangVariable), ":")
	if of != name {
		return loop
	}
	n, err := strconv.ParseInt(nth, 10, 64)
	if !found || err != nil {
		panic(fmt.Sprintf("%s=%q is not LOOP:NUMBER", hangVariable, os.Getenv(hangVariable)))
	}
	hanging := &hangingPulse{Pulse: loop}
	hanging.left.Store(n)
	return hanging
}

type hangingPulse struct {
	jobnet.Pulse
	left atomic.Int64 // pieces of work until it hangs
}

// Works says so, and never comes back where it is to hang.
func (h *hangingPulse) Works() {
	h.Pulse.Works()
	if h.left.Add(-1) == 0 {
		select {}
	}
}
