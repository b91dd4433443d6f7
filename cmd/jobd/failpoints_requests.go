//go:build failpoints

package main

import jobexec "jobd/exec"

type failingRequester struct {
	jobexec.Requester
	point *failpoint
}

// Start implements jobexec.Requester.
func (r failingRequester) Start(spec jobexec.Spec) (jobexec.Process, error) {
	r.point.reach("request-asking")
	process, err := r.Requester.Start(spec)
	if err != nil {
		return nil, err
	}
	r.point.reach("request-held")
	return failingHeld{failingProcess{process, r.point}, process.(jobexec.Held)}, nil
}

type failingHeld struct {
	failingProcess
	held jobexec.Held
}

// Proceed implements jobexec.Held.
func (h failingHeld) Proceed() {
	h.point.reach("request-proceeding")
	h.held.Proceed()
	h.point.reach("request-proceeded")
}
