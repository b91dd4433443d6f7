package host

import "golang.org/x/sys/unix"

// pipe is a pipe's two descriptors. The job gets the writing one; reading from the other never
// waits.
type pipe struct{ reader, writer int }

func newPipe() (pipe, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return pipe{}, err
	}
	p := pipe{ends[0], ends[1]}
	if err := unix.SetNonblock(p.reader, true); err != nil {
		p.close()
		return pipe{}, err
	}
	return p, nil
}

func (p pipe) close() {
	unix.Close(p.reader)
	unix.Close(p.writer)
}
