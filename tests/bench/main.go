package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
)

func main() {
	file := flag.String("json", "", "also write the numbers to this file, as JSON")
	flag.Parse()
	results, err := run(measure)
	if err == nil {
		err = report(os.Stdout, *file, results)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// result is one measured number.
type result struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
}

// report prints the table, and the same as JSON into the file if one is named.
func report(stdout io.Writer, file string, results []result) error {
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, r := range results {
		fmt.Fprintf(table, "%s\t%.*f\t%s\t\n", r.Name, decimals(r.Value), r.Value, r.Unit)
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

// decimals shows about three digits.
func decimals(value float64) int {
	switch {
	case value < 1:
		return 3
	case value < 100:
		return 1
	}
	return 0
}
