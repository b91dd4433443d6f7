package wire

// What the two sides share in the journal's folder, which is the runner's working folder.
const (
	// SocketFile is the socket on which the runner listens.
	SocketFile = "runner.sock"
	// EndedFile lists the instances of the runners that ended in order, one a line: with nothing
	// left of what they were asked to start. One that is not listed was killed, or the machine was.
	EndedFile = "runner.ended"
)

// SocketDescriptor is the descriptor at which a new runner finds its socket.
const SocketDescriptor = 3
