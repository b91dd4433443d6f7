package exec

import (
	"errors"
)

// RemoveBusy is what SetTargets does with a target that is no longer wanted.
func (w *Worker) RemoveBusy(name, by string) error { return w.remove(name, by, true) }

// IsFormer tells whether the name is held by a former connection of this worker.
func IsFormer(err error) bool {
	var former *formerError
	return errors.As(err, &former)
}

// HoldMemory keeps the lock that all of a worker shares, as one that hangs would, until it is
// released.
func (w *Worker) HoldMemory() (release func()) {
	w.mu.Lock()
	return w.mu.Unlock
}

// QuarantineAtMost bounds how many refused rows are remembered. Call it before Run.
func (w *Worker) QuarantineAtMost(n int) { w.mostQuarantined = n }
