package dbserver

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"jobd/store/storetest/must"
)

// childVariable makes this test's own binary the process that starts a server and is killed.
const childVariable = "JOBD_TEST_DBSERVER_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// child starts a server, says where it is, and waits to be killed.
func child() int {
	server, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(server.process.command.Process.Pid, server.program.outside(server.dir))
	select {}
}

func TestServerDiesWithItsStarter(t *testing.T) {
	t.Parallel()
	starter := exec.Command(os.Args[0])
	starter.Env = append(os.Environ(), childVariable+"=1")
	output := must.Get(starter.StdoutPipe())(t)
	must.Do(t, starter.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the starter said %q: %v", line, err)
	}
	var pid int
	var dir string
	if _, err := fmt.Sscan(line, &pid, &dir); err != nil {
		t.Fatalf("the starter said %q: %v", line, err)
	}
	must.Do(t, starter.Process.Kill())
	_ = starter.Wait() // it was killed
	awaitGone(t, fmt.Sprintf("/proc/%d/exe", pid))

	server := must.Get(Start(t.Context(), Options{}))(t)
	defer server.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("stat %s: %v; want the folder swept by the next start", dir, err)
	}
}

// awaitGone polls: nothing signals the end of a process that is not a child.
func awaitGone(t *testing.T, path string) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Readlink(path); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s is still there", path)
		}
	}
}
