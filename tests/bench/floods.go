package main

import (
	"time"

	"jobd/tests/harness"
)

// besideFloods is how long an honest client of a master waits for its answers while peers who know the password send as much as they can,
// and what memory that costs the master: the worst of all floods.
func besideFloods(p *program) []reading {
	const during = 3 * time.Second
	delay, memory := reading{}, 0.0
	for _, flood := range harness.MasterFloods() {
		master := harness.StartMaster(p, harness.Settings{"password": "s3cret", "log_level_console": "warn"})
		harness.Fleet(p, master, "s3cret", 200)
		quiet := honest(p, master, during/3)
		stop := flood.Start(p, master.Addr, "s3cret")
		beside := honest(p, master, during)
		sent := stop()
		peak := float64(harness.MemoryPeak(p, master.Pid)) / megabyte
		p.Logf("%s: %d sent, p99 %.1f ms, without %.1f ms, %.0f MB", flood.Name, sent, beside, quiet, peak)
		if beside > delay.value {
			delay = against(beside, quiet)
		}
		memory = max(memory, peak)
		master.Kill(p)
	}
	return []reading{delay, {value: memory}}
}

// honest is the p99 of an honest client's answers, in milliseconds.
func honest(p *program, master *harness.Daemon, during time.Duration) float64 {
	took := harness.Honest(p, master, "s3cret", during)
	return float64(took[(len(took)-1)*99/100]) / millisecond
}
