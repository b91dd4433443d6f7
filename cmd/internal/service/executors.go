package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	jobexec "jobd/exec"
	"jobd/net/api"
)

// Recycle has the processes replaced that are kept for the jobs of targets, one after the other. It
// does not wait for them.
func (s *Service) Recycle(_ context.Context, from Call, t api.Targets) (done api.Done, err error) {
	err = s.Worker.Recycle(t.Targets, "asked for by "+from.From.String())
	return done, s.judge(api.Recycle.Name, from, inOne(err))
}

// inOne is one refusal for several that are joined.
func inOne(err error) error {
	var refused jobexec.RefusedError
	if _, joined := err.(interface{ Unwrap() []error }); !joined || !errors.As(err, &refused) {
		return err
	}
	return jobexec.RefusedError(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// executors are what clients are told of those that run jobs otherwise than in a process for each, in
// the order of their targets. Requests are counted elsewhere.
func executors(of jobexec.Executors, targets map[string]jobexec.TargetStatus) (all []api.ExecutorStatus) {
	for _, p := range of.Pools {
		all = append(all, api.ExecutorStatus{
			Target: p.Target, Mode: string(p.Mode), Slots: targets[p.Target].Concurrency,
			Processes: p.Processes, Booting: p.Booting, Ready: p.Ready, Busy: p.Busy,
			Boots: p.Boots, Jobs: p.Jobs, Recycled: p.Recycled, Unready: p.Unready, Failing: p.Failing, Since: p.Since,
			Stranger: p.Stranger, StrangerAt: p.StrangerAt, Old: p.Old,
		})
	}
	for _, r := range of.Services {
		all = append(all, api.ExecutorStatus{
			Target: r.Target, Mode: string(r.Mode), Slots: r.Slots, Sent: r.Address, Busy: r.Busy, Unready: r.Unready, Since: r.Since,
		})
	}
	slices.SortFunc(all, func(a, b api.ExecutorStatus) int { return cmp.Compare(a.Target, b.Target) })
	return all
}
