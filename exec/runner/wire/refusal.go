package wire

import (
	"errors"
	"slices"
	"syscall"
)

// Class says what a start was refused for.
type Class int64

// The classes, by the numbers that stand for them in a message.
const (
	Program      Class = iota + 1 // the program can't be executed
	Short                         // something was missing that comes back by itself
	AlreadyKnown                  // this start was asked for before
)

// SaidAlready is the text of a refusal of the class AlreadyKnown.
const SaidAlready = "it was started already"

// shortages are the system's errors about something that comes back by itself: processes and
// memory, descriptors, and a program's file that nobody writes to.
var shortages = []error{
	syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.EINTR, syscall.ETXTBSY,
}

// ClassOf is the class of a start that failed with err.
func ClassOf(err error) Class {
	if slices.ContainsFunc(shortages, func(short error) bool { return errors.Is(err, short) }) {
		return Short
	}
	return Program
}
