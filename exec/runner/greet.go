package runner

import (
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"jobd/exec/runner/wire"
)

// greetTimeout is how long a runner may take to answer a hello. First it does all that former
// workers have asked for.
const greetTimeout = 10 * time.Second

// errSilent says that a runner is there, and does not answer.
var errSilent = errors.New("the runner does not answer; it may have been stopped, as by SIGSTOP")

// greet sends the worker's hello and waits for the runner's. It gives the runner's process, too; 0
// where that is not known.
func greet(conn *net.UnixConn, out *wire.Outbox, in *wire.Reader) (hello wire.Message, pid int, err error) {
	out.Send(wire.WorkerHello())
	out.Flush()
	if err := conn.SetReadDeadline(time.Now().Add(greetTimeout)); err != nil {
		return hello, 0, err
	}
	pid = peek(conn)
	hello, err = in.Next()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return hello, pid, fmt.Errorf("%w (for %s)", errSilent, greetTimeout)
	}
	if err != nil {
		return hello, pid, err
	}
	if err := hello.CheckHello(); err != nil {
		return hello, pid, err
	}
	if err := hello.CheckTokens(); err != nil {
		return hello, pid, err
	}
	return hello, pid, conn.SetReadDeadline(time.Time{})
}
