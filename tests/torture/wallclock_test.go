package torture

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"jobd/exec/runner/proctest"
	"jobd/store/storetest/must"
)

// wallClock is the clock of one process, which can be set while the program, as it is shipped, runs on. A program asks for
// the time in the code that the kernel maps into it, the vDSO; this code is replaced by
//
//	mov  $228, %eax        clock_gettime(2), the system call
//	syscall
//	test %edi, %edi        CLOCK_REALTIME?
//	jne  end
//	movabs $offset, %rcx   seconds
//	add  %rcx, (%rsi)
//	end: ret
//
// in the memory of that process alone. As with a clock that is set, the time of day jumps, and the monotonic clock goes on.
type wallClock struct {
	pid    int
	offset int64 // where in the memory the seconds stand
}

var (
	askKernel = []byte{0xb8, 228, 0, 0, 0, 0x0f, 0x05, 0x85, 0xff, 0x75, 13, 0x48, 0xb9}
	andReturn = []byte{0x48, 0x01, 0x0e, 0xc3}
)

// newWallClock takes the clock of a process of ours into its hands.
func newWallClock(t *testing.T, pid int) wallClock {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the clock of a process is set by machine code, which is written for amd64 only")
	}
	at, err := clockFunction(pid)
	if err != nil {
		t.Fatalf("find the clock of process %d: %v", pid, err)
	}
	c := wallClock{pid: pid, offset: at + int64(len(askKernel))}
	c.write(t, at, bytes.Join([][]byte{askKernel, make([]byte, 8), andReturn}, nil))
	return c
}

// set moves the clock away from the machine's.
func (c wallClock) set(t *testing.T, ahead time.Duration) {
	t.Helper()
	c.write(t, c.offset, binary.LittleEndian.AppendUint64(nil, uint64(int64(ahead/time.Second))))
}

// write changes the memory of the process while it stands still.
func (c wallClock) write(t *testing.T, at int64, content []byte) {
	t.Helper()
	proctest.Stop(t, c.pid)
	defer syscall.Kill(c.pid, syscall.SIGCONT)
	memory := must.Get(os.OpenFile(fmt.Sprintf("/proc/%d/mem", c.pid), os.O_WRONLY, 0))(t)
	defer memory.Close()
	if _, err := memory.WriteAt(content, at); err != nil {
		t.Fatalf("write the clock of process %d: %v", c.pid, err)
	}
}

// clockFunction finds clock_gettime in the vDSO of a process.
func clockFunction(pid int) (int64, error) {
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return 0, err
	}
	var begin, end int64
	for line := range strings.Lines(string(maps)) {
		if strings.Contains(line, "[vdso]") {
			_, err = fmt.Sscanf(line, "%x-%x", &begin, &end)
		}
	}
	if err != nil || begin == 0 {
		return 0, fmt.Errorf("it has no vDSO: %w", err)
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", pid))
	if err != nil {
		return 0, err
	}
	defer memory.Close()
	image := make([]byte, end-begin)
	if _, err := memory.ReadAt(image, begin); err != nil {
		return 0, err
	}
	file, err := elf.NewFile(bytes.NewReader(image))
	if err != nil {
		return 0, err
	}
	symbols, err := file.DynamicSymbols()
	for _, symbol := range symbols {
		if symbol.Name == "__vdso_clock_gettime" {
			return begin + int64(symbol.Value), nil
		}
	}
	return 0, errors.Join(errors.New("its vDSO has no clock"), err)
}
