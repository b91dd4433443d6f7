package main

import (
	"cmp"
	"slices"

	jobexec "jobd/exec"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

// mostAside is how many of the rows that are set aside a client is told of; their number is told
// besides.
const mostAside = 100

// aside lists the rows that can't be claimed for now, and those that the mirror can't bring up to
// date, the oldest first.
func (d *daemon) aside(rows []jobexec.AsideRow) []api.AsideRow {
	all := append([]jobexec.AsideRow{}, rows...)
	targets := make(map[int64]string)
	held := d.mirror.Aside()
	d.journal.View(func(s *journal.State) {
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
	told := make([]api.AsideRow, len(all))
	for i, row := range all {
		told[i] = api.AsideRow{Job: jobnet.Whole(row.Job), Target: row.Target, Reason: row.Reason, Since: row.Since}
	}
	return told
}

// identity is by what rows and other workers know this one: its mark, and the database server.
func (d *daemon) identity() (mark, server string) {
	d.journal.View(func(s *journal.State) { mark, server = s.Mark, s.Server })
	return mark, server
}
