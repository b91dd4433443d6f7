// Command jobd is the worker daemon: it claims the jobs of its targets from
// the jobs table, runs the launcher for each and writes back how it ended.
package main

import jobdaemon "jobd/cmd/internal/daemon"

func main() { jobdaemon.Main(program, run) }
