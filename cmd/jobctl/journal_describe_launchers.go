package main

import (
	"maps"
	"slices"
	"strings"
)

// describeLaunchers are the launchers of targets that have one of their own.
func describeLaunchers(launchers map[string][]string) string {
	var all []string
	for _, target := range slices.Sorted(maps.Keys(launchers)) {
		all = append(all, target+": "+strings.Join(launchers[target], " "))
	}
	return strings.Join(all, "; ")
}
