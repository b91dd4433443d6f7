// Package exit turns the error that a program ends with into its exit code
// and into what stands on stderr.
package exit

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// The exit codes that all programs share. What has no code of its own is a Failure.
const (
	Success = 0
	Failure = 1 // the program, a daemon or a check said no
	Usage   = 2 // wrong usage or wrong configuration
	Connect = 3 // jobctl could not connect
	NoJob   = 4 // there is no such job
	Late    = 5 // the time that was given (--timeout) is over
	Unknown = 6 // it can't be known now: nobody who was asked can read the table

	Signal = 128 // and the signal's number, where one ended the program
)

// coded is an error that knows its exit code.
type coded struct {
	code int
	err  error
}

// Error implements error.
func (c *coded) Error() string { return c.err.Error() }

// Unwrap gives the cause.
func (c *coded) Unwrap() error { return c.err }

// With gives err an exit code. An error with the code Success ends the program in
// order and in silence: what was to be said, such as the help, has been said.
func With(code int, err error) error {
	if err == nil {
		return nil
	}
	return &coded{code: code, err: err}
}

// Code is the exit code of err: that of the outermost With, else Failure; Success for nil.
func Code(err error) int {
	if err == nil {
		return Success
	}
	var c *coded
	if errors.As(err, &c) {
		return c.code
	}
	return Failure
}

// Join is several errors as one. Its exit code is that of all of them where they agree; else that of a
// signal where one is among them, and Failure.
func Join(errs ...error) error {
	joined := errors.Join(errs...)
	code := -1
	for _, err := range errs {
		switch each := Code(err); {
		case err == nil:
		case each >= Signal:
			return With(each, joined)
		case code < 0 || code == each:
			code = each
		default:
			code = Failure
		}
	}
	return With(code, joined)
}

// Report writes err to w, each line behind the program's name, and returns the exit code. It writes
// a line that several parts ended with once, and nothing of an error without text.
func Report(w io.Writer, program string, err error) int {
	code := Code(err)
	if code == Success {
		return code
	}
	told := map[string]bool{}
	for line := range strings.SplitSeq(strings.TrimRight(err.Error(), "\n"), "\n") {
		if line != "" && !told[line] {
			fmt.Fprintf(w, "%s: %s\n", program, line)
		}
		told[line] = true
	}
	return code
}
