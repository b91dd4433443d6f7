package main

import "jobd/cmd/internal/daemon"

func main() { daemon.Main("jobd-master", run) }
