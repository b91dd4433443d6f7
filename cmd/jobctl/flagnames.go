package main

import "flag"

// valueNames are what stands for the values of flags in the help.
var valueNames = map[string]string{
	"aside": "W,C", "failures": "W,C", "lag": "W,C", "oldest": "W,C", "waiting": "W,C", "workers": "W,C",
	"anchor": "FILE", "at": "TIME", "by": "TEXT", "code": "N", "format": "jsonl|csv", "grace": "D", "interval": "D", "job": "ID",
	"journal": "DIR", "kind": "K,…", "n": "N", "out": "FILE", "result": "ok|fail", "since": "TIME", "sort": "age|cpu|memory",
	"status": "S", "target": "T", "until": "TIME", "zone": "Z",
}

// withValue is a flag of a command as people write it, with what stands for its value.
func withValue(command string, f *flag.Flag) string {
	if is, ok := f.Value.(interface{ IsBoolFlag() bool }); ok && is.IsBoolFlag() {
		return dashed(f.Name)
	}
	name := valueNames[f.Name]
	if command == "stats" && f.Name == "by" {
		name = "target|hour|worker"
	}
	return dashed(f.Name) + " " + name
}
