package proc

// Relatives is where a process stands among others.
type Relatives struct {
	Parent, Group int
	StartTime     uint64
	Memory        int64 // resident bytes
	Ended         bool  // it is not reaped
}

// RelativesOf looks at one process. It fails where there is none.
func RelativesOf(pid int) (r Relatives, ok bool) {
	var buffer [longestStat]byte
	return relatives(statOfPid(pid, buffer[:]))
}

// relatives reads a stat file.
func relatives(stat []byte) (r Relatives, ok bool) {
	m, ok := parseStat(stat)
	if !ok {
		return r, false
	}
	return Relatives{m.parent, m.group, m.StartTime, m.Memory, m.state == 'Z' || m.state == 'X'}, true
}
