package main

import (
	"cmp"
	"slices"
	"time"

	jobexec "jobd/exec"
	"jobd/journal"
	jobnet "jobd/net"
)

// mostAside is how many of the rows that are set aside a client is told of; their number is told besides.
const mostAside = 100

// asideRow is a row as a client is told of it.
type asideRow struct {
	Job    jobnet.Whole `json:"job"` // 0: the reason names it
	Target string       `json:"target"`
	Reason string       `json:"reason"`
	Since  time.Time    `json:"since"`
}

// aside lists the rows that can't be claimed for now, and those that the mirror can't bring up to date, the oldest
// first.
func (h handlers) aside(rows []jobexec.AsideRow) []asideRow {
	all := append([]jobexec.AsideRow{}, rows...)
	targets := make(map[int64]string)
	held := h.mirror.Aside()
	h.journal.View(func(s *journal.State) {
		for _, a := range held { // a job that has ended is known to the mirror only
			targets[a.Job] = cmp.Or(a.Target, s.Job(a.Job).Target)
		}
	})
	for _, a := range held {
		all = append(all, jobexec.AsideRow{
			Job: a.Job, Target: targets[a.Job], Since: a.Since,
			Reason: "the row can't be made " + a.Wanted + ": " + a.Reason,
		})
	}
	slices.SortStableFunc(all, func(a, b jobexec.AsideRow) int { return a.Since.Compare(b.Since) })
	told := make([]asideRow, len(all))
	for i, row := range all {
		told[i] = asideRow{jobnet.Whole(row.Job), row.Target, row.Reason, row.Since}
	}
	return told
}

// identity is by what rows and other workers know this one: its mark, and the database server.
func (h handlers) identity() (mark, server string) {
	h.journal.View(func(s *journal.State) { mark, server = s.Mark, s.Server })
	return mark, server
}
