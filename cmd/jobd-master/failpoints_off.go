//go:build !failpoints

package main

import (
	"jobd/cmd/internal/pulse"
	jobnet "jobd/net"
)

// A jobd-master built with the tag failpoints hangs where a test says so, see failpoints_hang.go.
// This one does not.

func failPulse(_ string, loop *pulse.Loop) jobnet.Pulse { return loop }
