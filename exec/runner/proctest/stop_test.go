package proctest

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"

	"jobd/store/storetest/must"
)

// busy makes the test's program one that spins on many threads.
const busy = "JOBD_TEST_BUSY"

func TestMain(m *testing.M) {
	if os.Getenv(busy) == "" {
		os.Exit(m.Run())
	}
	ready, done := make(chan struct{}), make(chan struct{})
	for range 8 {
		go func() {
			for i := 0; ; i++ {
				if i == 0 {
					ready <- struct{}{}
				}
				unix.Getppid()
			}
		}()
	}
	for range 8 {
		<-ready
	}
	os.Stdout.Close() // that is how the test learns of it
	<-done
}

// No thread goes on once Stop has returned.
func TestAStoppedProcessStandsStill(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), busy+"=1", "GOMAXPROCS=8")
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	_, _ = out.Read(make([]byte, 1)) // at its end
	for range 50 {
		Stop(t, cmd.Process.Pid)
		if moving, err := goesOn(cmd.Process.Pid); moving != "" || err != nil {
			t.Errorf("after it was stopped: %s %v", moving, err)
		}
		must.Do(t, cmd.Process.Signal(unix.SIGCONT))
	}
}
