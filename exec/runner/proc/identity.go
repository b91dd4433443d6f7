package proc

import (
	"fmt"
	"os"
	"strings"
)

// BootID is the kernel's name of the current boot.
func BootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("boot id: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// StartTime is when a process started, in ticks since the boot; 0 where there is no such process.
func StartTime(pid int) uint64 {
	var buffer [longestStat]byte
	m, _ := parseStat(statOfPid(pid, buffer[:]))
	return m.StartTime
}
