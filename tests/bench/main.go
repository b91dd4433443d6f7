package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
)

func main() {
	file := flag.String("json", "", "also write the numbers to this file, as JSON")
	commit := flag.String("against", "", "measure this commit's build too, in turn, and tell how the two relate")
	pairs := flag.Int("pairs", 20, "how often, with --against")
	flag.Parse()
	measureAll := func() error { return run(flag.Args(), *file, os.Stdout, os.Stderr) }
	if *commit != "" {
		measureAll = func() error { return compare(flag.Args(), *commit, *pairs, *file, os.Stdout, os.Stderr) }
	}
	if err := measureAll(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// run measures what is named and reports it. What failed is told, and the others are measured all the same.
func run(names []string, file string, stdout, stderr io.Writer) error {
	all := benchmarks()
	if slices.Contains(names, "list") {
		return list(stdout, all)
	}
	chosen, err := choose(all, names)
	if err != nil {
		return fmt.Errorf("%w; there are:\n%s", err, listed(all))
	}
	s := &surroundings{}
	defer s.close()
	var results []result
	var failed error
	for _, b := range chosen {
		fmt.Fprintln(stderr, "measuring", b.name)
		measured, err := measure(s, b)
		if err != nil {
			fmt.Fprintf(stderr, "%s: %v\n", b.name, err)
			failed = fmt.Errorf("%s could not be measured", b.name)
		}
		results = append(results, measured...)
	}
	if err := report(stdout, file, results); err != nil {
		return err
	}
	return failed
}

// measure runs one benchmark and gives a result for each of its rows.
func measure(s *surroundings, b benchmark) ([]result, error) {
	p := &program{surroundings: s}
	readings, err := p.run(b.run)
	if err != nil {
		return nil, err
	}
	if len(readings) != len(b.rows) {
		return nil, fmt.Errorf("%d readings for %d rows", len(readings), len(b.rows))
	}
	results := make([]result, len(b.rows))
	for i, r := range readings {
		results[i] = b.rows[i].result(b.name, r)
	}
	return results, nil
}
