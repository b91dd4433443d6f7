package main

import "strings"

// someJobs reads the jobs that a command is about, each once: as ID, or TARGET:ID, whichever daemon
// is asked. The target is then to be the row's.
func (p *program) someJobs(name string, args []string) (jobs []jobRef, err error) {
	if len(args) == 0 {
		return nil, wrongUsage("%s: needs at least one job's ID", name)
	}
	seen := make(map[jobRef]bool, len(args))
	for _, arg := range args {
		colon := strings.LastIndexByte(arg, ':')
		job := jobRef{target: arg[:max(colon, 0)]}
		if job.id, err = parseID(arg[colon+1:]); err != nil || colon == 0 {
			return nil, wrongUsage("%s: job %q is not allowed; allowed is ID or TARGET:ID, where ID is %w", name, arg, errID)
		}
		if !seen[job] {
			seen[job] = true
			jobs = append(jobs, job)
		}
	}
	return jobs, nil
}
