package host

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
)

// What a process and the runner say to each other: lines, on two sockets.

// receive reads what one process has written, which the kernel names: never what two have. It is 0
// where that can't be seen from here. There is no room for descriptors that somebody sends along: the
// kernel closes them.
func receive(socket int, b []byte) (n, writer int, err error) {
	var control [64]byte
	head := unix.CmsgLen(0)
	n, m, _, _, err := unix.Recvmsg(socket, b, control[:unix.CmsgSpace(unix.SizeofUcred)], unix.MSG_CMSG_CLOEXEC)
	if err == nil && m >= head+4 {
		writer = int(int32(binary.NativeEndian.Uint32(control[head:])))
	}
	return n, writer, err
}

// mostLine is how many bytes a line may have, without its end.
const mostLine = 4095

// runLine asks a process for a job. The values are percent-encoded, so that none of them has a
// blank, or the end of a line.
func runLine(job int64, attempt int, vars []string) ([]byte, error) {
	b := fmt.Appendf(nil, "run %d %d", job, attempt)
	for _, v := range vars {
		b = percent(append(b, ' '), v)
	}
	if len(b) > mostLine {
		return nil, fmt.Errorf("the request for the job has %d bytes; a line may have %d", len(b), mostLine)
	}
	return append(b, '\n'), nil
}

// percent appends a variable. What stands as it is needs no encoding in a URL either.
func percent(b []byte, v string) []byte {
	const digits = "0123456789ABCDEF"
	for i := range len(v) {
		switch c := v[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("=-._~/:@,", c) >= 0:
			b = append(b, c)
		default:
			b = append(b, '%', digits[c>>4], digits[c&15])
		}
	}
	return b
}

// takeUnread takes an order back that nobody has read a byte of. Nobody else can read it then. The
// process is gone; its children may have inherited the socket, and wait there.
func (k *poolProcess) takeUnread(line int) (whole bool) {
	if pending(k.orders.its) < line {
		return false
	}
	b := make([]byte, line+1)
	n, _, _ := unix.Recvfrom(k.orders.its, b, unix.MSG_DONTWAIT)
	return max(n, 0) == line
}

// hear acts on all that is written to descriptor 4 by now: the epoll does not report again what is left
// there. A read ends where another process has written.
func (ps *pools) hear(k *poolProcess) {
	var b [mostLine + 1]byte
	for left := pending(k.answers.ours); left > 0; {
		if k.why != "" { // what it left behind may write for ever
			_ = unix.EpollCtl(ps.reactor.epoll.fd, unix.EPOLL_CTL_DEL, k.answers.ours, nil) // it may not be there
			return
		}
		n, writer, err := receive(k.answers.ours, b[:])
		if err == unix.EINTR {
			continue
		}
		if n <= 0 {
			return
		}
		left -= n
		k.take(writer, b[:n])
		k.pool.dirty = true
	}
}

// parts are the beginnings of lines, by the process that writes each.
type parts map[int][]byte

// mostParts is how many processes may have begun a line that is not at its end. Beyond that somebody
// writes what is no answer.
const mostParts = 64

// take acts on bytes that a process has written.
func (k *poolProcess) take(writer int, more []byte) {
	for len(more) > 0 && k.why == "" {
		line, rest, whole := bytes.Cut(more, []byte("\n"))
		if part := k.parts[writer]; len(part) > 0 {
			line = append(part, line...)
			delete(k.parts, writer)
		}
		switch {
		case whole || len(line) > mostLine:
			k.hears(writer, line)
		case k.parts == nil || len(k.parts) >= mostParts:
			k.parts = parts{writer: bytes.Clone(line)}
		default:
			k.parts[writer] = bytes.Clone(line)
		}
		more = rest
	}
}

// answer is a line of a pool process.
type answer struct {
	line   string
	writer int
	word   string // ready, started, refused, ended or exit
	job    int64
	number int  // of started: the process's, of ended: its wait status, of exit: the code
	has    bool // the number is there
}

// words are what an answer may begin with, how many numbers may follow, and what the second one may
// be at most: the system takes more for another number, so that it would signal other processes, or
// read another end.
var words = map[string]struct {
	least, most int
	number      int64
}{
	"ready": {0, 0, 0}, "started": {1, 2, math.MaxInt32}, "refused": {1, 1, 0}, "ended": {2, 2, math.MaxUint16}, "exit": {2, 2, math.MaxUint8},
}

// parseAnswer reads a line, which is without its end.
func parseAnswer(line []byte) (a answer, ok bool) {
	a.line = string(line)
	fields := strings.Split(a.line, " ")
	may, known := words[fields[0]]
	a.word = fields[0]
	if n := len(fields) - 1; !known || n < may.least || n > may.most {
		return a, false
	}
	var numbers [2]int64
	for i, field := range fields[1:] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil || strings.Trim(field, "0123456789") != "" {
			return a, false
		}
		numbers[i] = n
	}
	a.job, a.number, a.has = numbers[0], int(numbers[1]), len(fields) == 3
	return a, numbers[1] <= may.number
}

// hears acts on a line. Only what the process itself says counts, and, of a job that it has forked,
// what that one says of itself.
func (k *poolProcess) hears(writer int, line []byte) {
	a, ok := parseAnswer(line)
	a.writer = writer
	ofItself := ok && k.mode == "fork" && k.state == asked && a.word == "started" && a.number == writer
	// Until one has said ready, that may be the one that was started, or one that it has started in turn, as
	// where the launcher is a shell.
	ours := writer == k.speaker || k.speaker == 0 && (writer == k.started.Pid || k.begat(writer))
	if !ofItself && !ours {
		k.stranger(a)
		return
	}
	var id int64
	if k.turn != nil {
		id = k.turn.id.Job
	}
	if follows := k.phase().says[a.word]; ok && follows != nil && a.job == id && (a.word != "started" || a.has == (k.mode == "fork")) {
		follows(k, a)
		return
	}
	expected := strings.ReplaceAll(k.phase().expects, "#", strconv.FormatInt(id, 10))
	k.unfit(fmt.Sprintf("it wrote %.100q to descriptor 4, where %s is expected", a.line, expected))
}

// stranger tells that somebody else has written to descriptor 4, as a job may, or what it has left
// behind. That is no answer, and nothing follows from it.
func (k *poolProcess) stranger(a answer) {
	now := proc.Uptime()
	if k.strange != 0 && now-k.strange < int64(time.Second) {
		return
	}
	k.strange = now
	text := fmt.Sprintf("process %d (%s) wrote %.100q to descriptor 4 of %s, which is no answer:"+
		" it is not the process that said ready", a.writer, proc.Program(a.writer), a.line, k.name())
	k.pool.stranger, k.pool.strangerAt = text, time.Now().UnixMilli()
	k.pool.pools.warn(k.pool, k, 0, text)
}

// childOf is the process that a job was forked into, which says so itself. It must be a descendant
// that leads a group of its own. One that is gone by now had a parent that has reaped it, which is
// about to say so.
func (k *poolProcess) childOf(pid int) (startTime uint64, pidfd int, wrong string) {
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		pidfd = -1 // it is gone, or we have no descriptor left
	}
	switch who, there := proc.RelativesOf(pid); {
	case !there:
		startTime = uint64(proc.Uptime() / proc.Tick)
	case !k.begat(who.Parent):
		wrong = "that process is not its child"
	case who.Group != pid:
		wrong = "that process leads no process group: it must do so (setpgid) before it says started"
	default:
		return who.StartTime, pidfd, ""
	}
	if pidfd >= 0 {
		unix.Close(pidfd)
	}
	return startTime, -1, wrong
}

// begat tells whether a process is the pool's, or a descendant; or ours, where that is gone.
func (k *poolProcess) begat(parent int) bool {
	for range 8 {
		if parent == k.started.Pid || k.state == asked && parent == unix.Getpid() && proc.Over(k.pidfd) {
			return true
		}
		who, there := proc.RelativesOf(parent)
		if !there {
			return false
		}
		parent = who.Parent
	}
	return false
}

// What a process writes while it has no job goes to the log.

// strays reads what was written while there was no job, and tells.
func (k *poolProcess) strays(when string) {
	if k.readAway(false); k.wrote.size > 0 {
		k.pool.pools.warn(k.pool, k, 0, fmt.Sprintf("%s, or what it left behind, wrote %s: %q", k.name(), when, k.said()))
	}
}

// readAway reads what is in the pipes. At the end of a pipe it is given up.
func (k *poolProcess) readAway(toEnd bool) {
	scratch := k.pool.pools.reactor.scratch
	for i, fd := range k.output {
		if fd < 0 {
			continue
		}
		k.wrote.pipe, k.wrote.closed, k.wrote.hungUp = fd, false, false
		if toEnd {
			k.wrote.read(scratch, true)
		} else {
			k.wrote.readPending(scratch)
		}
		if k.wrote.hungUp {
			k.hangUp(i)
		}
	}
}

// said gives what was read away, once.
func (k *poolProcess) said() (text string) {
	text = k.wrote.excerpt()
	k.wrote = newExcerpt()
	return text
}

// hangUp gives up a pipe that nobody can write into any more.
func (k *poolProcess) hangUp(i int) {
	unix.Close(k.output[i])
	k.output[i] = -1
}

// How much is told of what a process writes while it has no job. What is wrong may stand first, as
// with PHP, or last, as with Python, below the list of calls.
const (
	mostHead = 200
	mostTail = 400
)

// newExcerpt makes a capture that keeps the beginning and the end of a text.
func newExcerpt() capture {
	return capture{shared: true, closed: true, limit: mostHead, followed: never}
}

// excerpt is the text, without the end of its last line.
func (c *capture) excerpt() string {
	between, tail := "", c.tail
	if over := len(tail) - mostTail; over > 0 {
		between, tail = " … ", tail[over:]
	}
	return strings.TrimRight(strings.ToValidUTF8(string(c.kept)+between+string(tail), "�"), "\n")
}
