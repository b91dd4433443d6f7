package main

import (
	"jobd/cmd/internal/pulse"
	jobnet "jobd/net"
)

// failPulse is the pulse of a loop, as it is. The binary of this package's tests is a master, too, that
// hangs where a test says so: there it is another one, see failpoints_test.go.
var failPulse = func(_ string, loop *pulse.Loop) jobnet.Pulse { return loop }
