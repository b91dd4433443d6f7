package freeport

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"jobd/store/storetest/must"
)

// bookVariable has the test's program take all ports of that book, and hold them until its input
// ends.
const bookVariable = "FREEPORT_TEST_BOOK"

func TestMain(m *testing.M) {
	if path := os.Getenv(bookVariable); path != "" {
		b := few(path)
		for {
			port, err := b.take()
			if err != nil {
				break
			}
			fmt.Print(port, " ")
		}
		fmt.Println()
		_, _ = bufio.NewReader(os.Stdin).ReadByte()
		return
	}
	os.Exit(m.Run())
}

// few is a book with few ports.
func few(path string) *book { return &book{path: path, low: 9000, high: 9029} }

// What one process has no other one gets, as long as the first is there, and no longer.
func TestAPortIsReservedAgainstOtherProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "book")
	other := exec.Command(os.Args[0])
	other.Env = append(os.Environ(), bookVariable+"="+path)
	input := must.Get(other.StdinPipe())(t)
	output := must.Get(other.StdoutPipe())(t)
	must.Do(t, other.Start())
	its, err := bufio.NewReader(output).ReadString('\n')
	if err != nil || its == "\n" {
		t.Fatalf("the other process has no ports: %q, %v", its, err)
	}
	b := few(path)
	if port, err := b.take(); err == nil {
		t.Errorf("port %d is given though the other process has %s", port, its)
	}
	input.Close()
	must.Do(t, other.Wait())
	if _, err := b.take(); err != nil {
		t.Errorf("the other process is gone, and its ports are not free: %v", err)
	}
}

// No port is given twice, and none that somebody listens on.
func TestTake(t *testing.T) {
	b := few(filepath.Join(t.TempDir(), "book"))
	var listener net.Listener
	for port := b.low; listener == nil && port <= b.high; port++ {
		listener, _ = net.Listen("tcp", Address(port)) // nil where somebody else does
	}
	if listener == nil {
		t.Fatal("no port is free")
	}
	defer listener.Close()
	had := map[int]bool{listener.Addr().(*net.TCPAddr).Port: true}
	for {
		port, err := b.take()
		if err != nil {
			break
		}
		if had[port] {
			t.Errorf("port %d was had before", port)
		}
		had[port] = true
	}
	if len(had) < 2 {
		t.Error("no port was given")
	}
}

func TestNoneOfTheKernels(t *testing.T) {
	for _, c := range []struct{ kernelLow, kernelHigh, low, high int }{
		{32768, 60999, 10000, 32767},
		{1024, 40000, 40001, 65535},
		{10240, 65535, 10000, 65535},
	} {
		if low, high := span(c.kernelLow, c.kernelHigh); low != c.low || high != c.high {
			t.Errorf("beside the kernel's %d to %d: %d to %d", c.kernelLow, c.kernelHigh, low, high)
		}
	}
	kernelLow, kernelHigh := kernels()
	port := must.Get(Take())(t)
	if low, high := span(kernelLow, kernelHigh); port < low || port > high {
		t.Errorf("port %d is given, which the kernel may give, too: it gives %d to %d", port, kernelLow, kernelHigh)
	}
}
