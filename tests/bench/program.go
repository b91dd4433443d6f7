package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

// program lets a command use the test harness: what would fail a test ends
// the measurement with an error, and cleanups run at the end.
type program struct {
	testing.TB
	cleanups []func()
	failed   error
}

// failure is what Fatal panics with.
type failure struct{ err error }

// run calls measure with a program of its own.
func run(measure func(*program) []result) (results []result, err error) {
	p := &program{}
	defer func() {
		switch f := recover().(type) {
		case nil:
		case failure:
			p.failed = f.err
		default:
			panic(f)
		}
		for _, cleanup := range slices.Backward(p.cleanups) {
			cleanup()
		}
		err = p.failed
	}()
	return measure(p), nil
}

// Helper implements testing.TB.
func (p *program) Helper() {}

// Context implements testing.TB.
func (p *program) Context() context.Context { return context.Background() }

// Cleanup implements testing.TB.
func (p *program) Cleanup(f func()) { p.cleanups = append(p.cleanups, f) }

// Failed implements testing.TB.
func (p *program) Failed() bool { return p.failed != nil }

// Fatal implements testing.TB.
func (p *program) Fatal(args ...any) { panic(failure{errors.New(fmt.Sprint(args...))}) }

// Fatalf implements testing.TB.
func (p *program) Fatalf(format string, args ...any) { panic(failure{fmt.Errorf(format, args...)}) }

// Logf implements testing.TB.
func (p *program) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// TempDir implements testing.TB.
func (p *program) TempDir() string {
	dir, err := os.MkdirTemp("", "jobd-bench-")
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
