package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
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
