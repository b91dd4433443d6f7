package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"jobd/cmd/internal/screen"
)

// tables begins what statistics are printed in: one table, or, on a terminal, where that is too
// wide for most, one of counts, one of times and one of lateness, if anything was planned.
func (s *statistics) tables() (counts, times, late *report) {
	by := strings.ToUpper(string(s.by))
	columns := []string{by, "CLAIMED", "STARTS", "DONE", "FAILED", "RELEASED", "CONFLICTS", "STARTS/JOB"}
	timed := []string{"WAIT P50", "P90", "P99", "MAX", "RUN P50", "P90", "P99", "MAX"}
	if !s.brief() {
		if s.anyLate() {
			timed = append([]string{"LATE P50", "LATE MAX"}, timed...)
		}
		counts = s.report(false, "no events", slices.Concat(columns, timed)...)
		return counts, counts, nil
	}
	counts = s.report(false, "no events", columns...).cutAt(by)
	if s.anyLate() {
		late = s.report(false, "", by, "LATE P50", "P90", "P99", "MAX").cutAt(by)
	}
	return counts, s.report(false, "", append([]string{by}, timed...)...).cutAt(by), late
}

// addGroup adds a group to its table, or to all.
func (s *statistics) addGroup(counts, times, lates *report, name string, form statisticsForm, tone tone) error {
	g := s.groups[name]
	row := []any{name, g.claimed, g.starts, g.done, g.failed, g.released, g.conflicts, fmt.Sprintf("%.2f", g.perJob())}
	write := brief
	if s.brief() {
		write = briefest
	}
	timed := slices.Concat(timesOf(&g.waited, write), timesOf(&g.ran, write))
	late := timesOf(&g.late, write)
	if counts == times {
		if s.anyLate() {
			timed = slices.Concat([]any{late[0], late[3]}, timed)
		}
		return counts.add("", form, tone, append(row, timed...)...)
	}
	if err := counts.add("", form, tone, row...); err != nil || s.json() {
		return err
	}
	if lates != nil && g.late.count > 0 {
		if err := lates.add("", nil, plain, append([]any{name}, late...)...); err != nil {
			return err
		}
	}
	return times.add("", nil, tone, append([]any{name}, timed...)...)
}

// timesOf is what is told of some durations; nothing where there are none.
func timesOf(d *durations, write func(time.Duration) string) []any {
	if d.count == 0 {
		return []any{"", "", "", ""}
	}
	return []any{write(d.quantile(.5)), write(d.quantile(.9)), write(d.quantile(.99)), write(d.longest)}
}

// briefest writes a duration so that eight of them stand in a line of a terminal.
func briefest(d time.Duration) string {
	switch {
	case d >= time.Minute:
		return screen.Length(d)
	case d >= 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d >= time.Second:
		return d.Round(10 * time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Microsecond).String()
}

// anyLate tells whether anything was planned for a time.
func (s *statistics) anyLate() bool {
	for _, g := range s.groups {
		if g.late.count > 0 {
			return true
		}
	}
	return false
}
