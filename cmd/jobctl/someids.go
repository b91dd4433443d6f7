package main

import "strings"

// someJobs reads the jobs that a command is about, each once: as ID, or TARGET:ID, whichever daemon
// is asked. The target is then to be the row's.
func (p *program) someJobs(name string, args []string) (jobs []jobRef, err error) {
	if len(args) == 0 {
		return nil, wrongUsage("%s: needs at least one job, as ID or TARGET:ID", name)
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

// oneJob refuses the words of a command that is about one job, where they are none or several.
func oneJob(name, form string, args []string) error {
	switch len(args) {
	case 0:
		return wrongUsage("%s: needs a job, as %s", name, form)
	case 1:
		return nil
	}
	return wrongUsage("%s: takes one job, got %q", name, args)
}
