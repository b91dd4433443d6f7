package main

import (
	"fmt"
	"slices"
	"strings"
)

// tables begins what statistics are printed in: one table, or, on a terminal, where that is too
// wide for most, one of counts and one of times.
func (s *statistics) tables() (counts, times *report) {
	by := strings.ToUpper(string(s.by))
	columns := []string{by, "CLAIMED", "STARTS", "DONE", "FAILED", "RELEASED", "CONFLICTS", "STARTS/JOB"}
	timed := []string{"WAIT P50", "P90", "P99", "MAX", "RUN P50", "P90", "P99", "MAX"}
	if !s.brief() {
		counts = s.report(false, "no events", slices.Concat(columns, timed)...)
		return counts, counts
	}
	counts = s.report(false, "no events", columns...).cutAt(by)
	return counts, s.report(false, "", append([]string{by}, timed...)...).cutAt(by)
}

// addGroup adds a group to its table, or to both.
func (s *statistics) addGroup(counts, times *report, name string, form statisticsForm, tone tone) error {
	g := s.groups[name]
	row := []any{name, g.claimed, g.starts, g.done, g.failed, g.released, g.conflicts, fmt.Sprintf("%.2f", g.perJob())}
	w, r := &g.waited, &g.ran
	timed := []any{
		briefOf(w, w.quantile(.5)), briefOf(w, w.quantile(.9)), briefOf(w, w.quantile(.99)), briefOf(w, w.longest),
		briefOf(r, r.quantile(.5)), briefOf(r, r.quantile(.9)), briefOf(r, r.quantile(.99)), briefOf(r, r.longest),
	}
	if counts == times {
		return counts.add("", form, tone, append(row, timed...)...)
	}
	if err := counts.add("", form, tone, row...); err != nil || s.json() {
		return err
	}
	return times.add("", nil, tone, append([]any{name}, timed...)...)
}
