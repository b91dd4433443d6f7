package runner

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	jobexec "jobd/exec"
)

// class says what a start was refused for.
type class int64

const (
	classProgram class = iota + 1 // it can't be executed
	classShort                    // something was missing that comes back by itself
	classKnown                    // it was asked for before
)

// alreadyStarted is what a runner says to a start that it knows.
const alreadyStarted = "it was started already"

// shortages are what the system says when something is missing that comes back by itself: processes and memory, descriptors,
// and a program's file that nobody writes to.
var shortages = []error{
	syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.EINTR, syscall.ETXTBSY,
}

// startError says what could not be started, and names the folder where that is what is missing. Whatever went wrong, no
// program was executed.
func startError(spec jobexec.Spec, err error) error {
	refusal := &jobexec.NotStartedError{
		Why:   fmt.Sprintf("start %s: %v", spec.Argv[0], err),
		Short: slices.ContainsFunc(shortages, func(short error) bool { return errors.Is(err, short) }),
	}
	if spec.Dir != "" && !refusal.Short {
		if _, statErr := os.Stat(spec.Dir); statErr != nil {
			refusal.Why = fmt.Sprintf("start %s: working folder: %v", spec.Argv[0], statErr)
		}
	}
	return refusal
}

// classOf is the class of what startError gave.
func classOf(err error) class {
	var refusal *jobexec.NotStartedError
	if errors.As(err, &refusal) && refusal.Short {
		return classShort
	}
	return classProgram
}

// refusal is why a start never happened, as the runner tells. An older one tells it in words only.
func refusal(m *message) error {
	switch {
	case m.Class == classKnown, m.Class == 0 && m.Text == alreadyStarted:
		return errors.New(m.Text)
	case m.Class == 0:
		short := slices.ContainsFunc(shortages, func(short error) bool { return strings.HasSuffix(m.Text, ": "+short.Error()) })
		return &jobexec.NotStartedError{Why: m.Text, Short: short}
	}
	return &jobexec.NotStartedError{Why: m.Text, Short: m.Class == classShort}
}

// refuse tells the worker that a start did not happen.
func (s *Server) refuse(id id, text string, why class) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.out == nil {
		return
	}
	if !s.classes {
		why = 0
	}
	s.out.send(message{Kind: kindRefused, ID: id, Text: text, Class: why})
}
