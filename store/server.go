package store

// AnotherServer is the error of a claim that reached a server whose rows have not been compared
// with the journal yet: it may have lost what was committed elsewhere. Nothing was decided. The
// table is not away.
type AnotherServer struct {
	Reached   string // the server's identity
	Confirmed string // the identity that claims are made on; "" where none was confirmed yet
}

// Error implements error.
func (e *AnotherServer) Error() string {
	if e.Confirmed == "" {
		return "server " + e.Reached + ": its rows are compared with the journal first"
	}
	return "server " + e.Reached + " answers instead of " + e.Confirmed + ": its rows are compared with the journal first"
}

// Away tells that the table can be reached.
func (e *AnotherServer) Away() bool { return false }

// Passing tells that nothing is wrong: no server was confirmed since the worker has started, which the
// mirror does with the first of them.
func (e *AnotherServer) Passing() bool { return e.Confirmed == "" }

// Undone tells that nothing of the claim was committed.
func (e *AnotherServer) Undone() bool { return true }
