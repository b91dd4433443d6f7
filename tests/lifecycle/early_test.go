package lifecycle

import (
	"bufio"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/tests/harness"
)

// Signals of the first moments of a start are heeded as later ones are: a SIGHUP changes nothing, a SIGTERM or
// SIGINT ends the daemon in order. The runtime tells when the daemon is so far that it can catch them, which is before most of its
// packages are ready. A worker executes itself once more, and where a SIGTERM or SIGINT meets that it ends at once; a SIGHUP never
// ends it.
func TestSignalsOfTheFirstMoments(t *testing.T) {
	t.Parallel()
	db := harness.NewDatabase(t)
	master := harness.Settings{"host": "127.0.0.1", "port": "0"}
	worker := db.Worker(t, "early", "/bin/true {id}", map[string]int{"a": 1}).With(harness.Settings{"port": "0"})
	for program, settings := range map[string]harness.Settings{"jobd-master": master, "jobd": worker} {
		t.Run(program, func(t *testing.T) {
			binary, config := harness.Program(t, program), settings.Write(t)
			for try := range 30 {
				first := []syscall.Signal{syscall.SIGHUP, syscall.SIGTERM, syscall.SIGINT}[try%3]
				d := exec.Command(binary, "--config", config)
				d.Env = append(os.Environ(), "GODEBUG=inittrace=1")
				said, err := d.StderrPipe()
				if err == nil {
					err = d.Start()
				}
				if err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(said)
				for lines.Scan() && !strings.HasPrefix(lines.Text(), "init jobd/cmd/internal/signals ") {
				}
				drained := make(chan struct{})
				go func() { defer close(drained); _, _ = io.Copy(io.Discard, said) }()
				<-time.After(rand.N(8 * time.Millisecond))
				_ = d.Process.Signal(first)
				_ = d.Process.Signal(syscall.SIGTERM) // a SIGHUP alone is no end
				<-drained
				err = d.Wait()
				var exit *exec.ExitError
				if errors.As(err, &exit) && program == "jobd" && exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGHUP {
					err = nil
				}
				if err != nil {
					t.Errorf("try %d: %s in its first moments: %v", try, first, err)
				}
			}
		})
	}
}
