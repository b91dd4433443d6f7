package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// instance tells this worker from all others, for its masters: a worker that registers again takes the place of its
// former registration, whose link may be half dead. It is the same for every run with the same journal, which one
// process at a time can have, and for no other: the host and the journal's folder make it.
func instance(journalDir string) (string, error) {
	var folder unix.Stat_t
	if err := unix.Stat(journalDir, &folder); err != nil {
		return "", fmt.Errorf("journal folder %s: %w", journalDir, err)
	}
	host, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("name of the host: %w", err)
	}
	machine, _ := os.ReadFile("/etc/machine-id") // not on every host
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\n%s\n%d:%d", host, strings.TrimSpace(string(machine)), folder.Dev, folder.Ino))
	return hex.EncodeToString(sum[:8]), nil
}
