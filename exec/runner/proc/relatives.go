package proc

import (
	"bytes"
	"os"
	"strconv"
)

// Relatives is where a process stands among others.
type Relatives struct {
	Parent, Group int
	StartTime     uint64
	Memory        int64 // resident bytes
	Ended         bool  // it is not reaped
}

// RelativesOf looks at one process. It fails where there is none.
func RelativesOf(pid int) (r Relatives, ok bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return r, false
	}
	return relatives(stat)
}

// relatives reads a stat file.
func relatives(stat []byte) (r Relatives, ok bool) {
	m, ok := parseStat(stat)
	rest := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if !ok || len(rest) < 2 {
		return r, false
	}
	return Relatives{int(number(rest[1])), m.group, m.StartTime, m.Memory, rest[0][0] == 'Z' || rest[0][0] == 'X'}, true
}
