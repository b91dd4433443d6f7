package service

import (
	"cmp"
	"context"
	"slices"

	jobexec "jobd/exec"
	"jobd/net/contract"
)

// recycled is what standings name as the reason of replacements that clients ask for.
const recycled = "recycle"

// Recycle has the processes replaced that are kept for the jobs of targets, one after the other. It
// does not wait for them.
func (s *Service) Recycle(_ context.Context, from Call, t contract.Targets) (done contract.Done, err error) {
	if err = s.judge(contract.Recycle.Name, from, inOne(s.Worker.Recycle(t.Targets, recycled))); err == nil {
		s.Logger.Info("processes that are kept for jobs are to be replaced", "targets", t.Targets, "by", from.From.String())
	}
	return done, err
}

// executors are what clients are told of those that run jobs otherwise than in a process for each, in
// the order of their targets. Requests are counted elsewhere.
func executors(of jobexec.Executors, targets map[string]jobexec.TargetStatus) []contract.ExecutorStatus {
	all := make([]contract.ExecutorStatus, 0, len(of.Pools)+len(of.Services))
	for _, p := range of.Pools {
		all = append(all, contract.ExecutorStatus{
			Target: p.Target, Mode: string(p.Mode), Slots: targets[p.Target].Concurrency,
			Processes: p.Processes, Booting: p.Booting, Ready: p.Ready, Busy: p.Busy,
			Boots: p.Boots, Jobs: p.Jobs, Recycled: p.Recycled, Unready: p.Unready, Since: p.Since,
		})
	}
	for _, r := range of.Services {
		all = append(all, contract.ExecutorStatus{
			Target: r.Target, Mode: string(r.Mode), Slots: r.Slots, Sent: r.Address, Busy: r.Busy, Unready: r.Unready, Since: r.Since,
		})
	}
	slices.SortFunc(all, func(a, b contract.ExecutorStatus) int { return cmp.Compare(a.Target, b.Target) })
	return all
}
