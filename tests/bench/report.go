package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"jobd/tests/harness"
)

// reading is what was measured: the product's value, the raw limit's, and how they relate.
type reading struct{ value, raw, ratio float64 }

// against is a value beside the raw limit.
func against(value, raw float64) reading { return reading{value, raw, value / raw} }

// goal is what a reading should reach.
type goal struct {
	Of        string  `json:"of"`        // value or ratio
	Direction string  `json:"direction"` // ≥ or ≤
	Limit     float64 `json:"limit"`
}

func atLeast(limit float64) goal      { return goal{"value", "≥", limit} }
func atMost(limit float64) goal       { return goal{"value", "≤", limit} }
func ratioAtLeast(limit float64) goal { return goal{"ratio", "≥", limit} }
func ratioAtMost(limit float64) goal  { return goal{"ratio", "≤", limit} }

// reached tells whether a reading is as good as it should be.
func (g goal) reached(r reading) bool {
	got := r.value
	if g.Of == "ratio" {
		got = r.ratio
	}
	if g.Direction == "≥" {
		return got >= g.Limit
	}
	return got <= g.Limit
}

func (g goal) text(unit string) string {
	if g.Of == "" {
		return "-"
	}
	if g.Of == "ratio" {
		return fmt.Sprintf("ratio %s %g", g.Direction, g.Limit)
	}
	return fmt.Sprintf("%s %g %s", g.Direction, g.Limit, unit)
}

// result is one row of the table.
type result struct {
	Name    string   `json:"name"`
	What    string   `json:"what"`
	Goal    goal     `json:"goal"`
	Value   float64  `json:"value"`
	Unit    string   `json:"unit"`
	Raw     *float64 `json:"raw"` // null where there is nothing to compare with
	Ratio   *float64 `json:"ratio"`
	Reached bool     `json:"reached"`
}

func (r row) result(name string, got reading) result {
	made := result{Name: name, What: r.what, Goal: r.goal, Value: got.value, Unit: r.unit, Reached: r.goal.reached(got)}
	if got.raw != 0 {
		made.Raw, made.Ratio = &got.raw, &got.ratio
	}
	return made
}

func (r result) verdict() string {
	switch {
	case r.Goal.Of == "":
		return "-"
	case r.Reached:
		return "yes"
	}
	return "no"
}

// report prints the table, and the same as JSON into the file if one is named.
func report(stdout io.Writer, file string, results []result) error {
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BENCH\tWHAT\tGOAL\tMEASURED\tRAW\tRATIO\tREACHED")
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s %s\t%s\t%s\t%s\n",
			r.Name, r.What, r.Goal.text(r.Unit), number(&r.Value), r.Unit, number(r.Raw), number(r.Ratio), r.verdict())
	}
	if err := table.Flush(); err != nil || file == "" {
		return err
	}
	encoded, err := json.MarshalIndent(results, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(encoded, '\n'), 0o644)
}

// number shows about three digits; "-" where there is none.
func number(value *float64) string {
	switch {
	case value == nil:
		return "-"
	case *value < 10:
		return fmt.Sprintf("%.2f", *value)
	case *value < 100:
		return fmt.Sprintf("%.1f", *value)
	}
	return fmt.Sprintf("%.0f", *value)
}

// Two commits are compared by running their own bench programs in turn, old and new, or new and old in
// every second pair. Where a reading has a raw limit, the two ratios to it are compared, so that the
// machine's speed is in neither; else the two values. All quotients say how many times better the new
// one is: 1.02 is two hundredths faster, or smaller.

// lessIsBetter are the units of which less is better.
var lessIsBetter = []string{"ms", "µs", "MB", ""}

// comparison is one row of the benchmarks, in all pairs so far.
type comparison struct {
	Name     string    `json:"name"`
	What     string    `json:"what"`
	Better   []float64 `json:"better"` // new ÷ old, a pair each
	Median   float64   `json:"median"`
	From, To float64   // the 95 % interval of the median; 0: too few pairs for one
}

// compare measures the named benchmarks of this checkout and of a commit in its history, in so many
// pairs, and prints how they relate.
func compare(names []string, commit string, pairs int, file string, stdout, stderr io.Writer) error {
	if _, err := choose(benchmarks(), names); err != nil || len(names) == 0 || pairs < 1 {
		return errors.Join(errors.New("with --against, name what is to be measured, and at least one pair"), err)
	}
	folder, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := unpack(commit, folder); err != nil {
		return err
	}
	programs := [2]string{filepath.Join(folder, "old"), filepath.Join(folder, "new")}
	trees := [2]string{folder, harness.Top()}
	for i, tree := range trees {
		if err := command(filepath.Join(tree, "tests"), stderr, "go", "build", "-o", programs[i], "./bench").Run(); err != nil {
			return fmt.Errorf("build the bench program in %s: %w", tree, err)
		}
	}
	var all []*comparison
	for pair := range pairs {
		for _, name := range names {
			var results [2][]result
			for turn := range 2 {
				which := (turn + pair) % 2
				fmt.Fprintf(stderr, "pair %d: %s of the %s build\n", pair+1, name, [2]string{"old", "new"}[which])
				if results[which], err = readings(trees[which], programs[which], folder, name, stderr); err != nil {
					return err
				}
			}
			all = noted(all, results[0], results[1])
		}
	}
	return reportComparison(stdout, file, all)
}

// unpack puts the files of a commit into a folder.
func unpack(commit, folder string) error {
	archive := exec.Command("git", "-C", harness.Top(), "archive", commit)
	tar := exec.Command("tar", "-x", "-C", folder)
	var problem strings.Builder
	archive.Stderr, tar.Stderr = &problem, &problem
	out, err := archive.StdoutPipe()
	if err != nil {
		return err
	}
	tar.Stdin = out
	if err := errors.Join(archive.Start(), tar.Run(), archive.Wait()); err != nil {
		return fmt.Errorf("the files of commit %s: %w: %s", commit, err, &problem)
	}
	return nil
}

func command(folder string, stderr io.Writer, name string, args ...string) *exec.Cmd {
	c := exec.Command(name, args...)
	c.Dir, c.Stderr = folder, stderr
	return c
}

// readings runs one benchmark of a build in its own tree, whose programs it measures.
func readings(tree, program, folder, name string, stderr io.Writer) (results []result, err error) {
	file := filepath.Join(folder, "reading.json")
	if err := command(filepath.Join(tree, "tests"), stderr, program, "--json", file, name).Run(); err != nil {
		return nil, fmt.Errorf("%s in %s: %w", name, tree, err)
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &results)
	}
	return results, err
}

// noted adds a pair to the comparisons. Rows that only one of the two has are left out.
func noted(all []*comparison, before, now []result) []*comparison {
	for _, n := range now {
		at := slices.IndexFunc(before, func(b result) bool { return b.Name == n.Name && b.What == n.What })
		if at < 0 {
			continue
		}
		b := before[at]
		quotient := n.Value / b.Value
		if n.Ratio != nil && b.Ratio != nil {
			quotient = *n.Ratio / *b.Ratio
		}
		if slices.Contains(lessIsBetter, n.Unit) {
			quotient = 1 / quotient
		}
		if math.IsNaN(quotient) || math.IsInf(quotient, 0) {
			continue // nothing was counted in one of them
		}
		place := slices.IndexFunc(all, func(c *comparison) bool { return c.Name == n.Name && c.What == n.What })
		if place < 0 {
			place, all = len(all), append(all, &comparison{Name: n.Name, What: n.What})
		}
		all[place].Better = append(all[place].Better, quotient)
	}
	return all
}

// interval is that of the median of independent numbers, in which it is with a probability of 95 %
// whatever their distribution: between the k-th lowest and the k-th highest. Fewer than six have none.
func interval(numbers []float64) (from, to float64, ok bool) {
	n := len(numbers)
	below, term, k := 0.0, math.Pow(0.5, float64(n)), 0
	for below+term <= 0.025 {
		below += term
		term *= float64(n-k) / float64(k+1)
		k++
	}
	if k == 0 {
		return 0, 0, false
	}
	sorted := slices.Sorted(slices.Values(numbers))
	return sorted[k-1], sorted[n-k], true
}

func reportComparison(stdout io.Writer, file string, all []*comparison) error {
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "BENCH\tWHAT\tPAIRS\tNEW ÷ OLD\t95 %")
	for _, c := range all {
		c.Median = median(c.Better)
		within := "-"
		if from, to, ok := interval(c.Better); ok {
			c.From, c.To = from, to
			within = fmt.Sprintf("%.3f–%.3f", from, to)
		}
		fmt.Fprintf(table, "%s\t%s\t%d\t%.3f\t%s\n", c.Name, c.What, len(c.Better), c.Median, within)
	}
	if err := table.Flush(); err != nil || file == "" {
		return err
	}
	encoded, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(encoded, '\n'), 0o644)
}
