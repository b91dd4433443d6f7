package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"jobd/store/storetest/dbserver"
)

// surroundings is what all benchmarks share, made when the first one needs it.
type surroundings struct {
	server *dbserver.Server
}

func (s *surroundings) close() {
	if s.server == nil {
		return
	}
	if err := s.server.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
}

// program lets a command use the test harness: what would fail a test ends
// the benchmark with an error, and cleanups run at its end.
type program struct {
	testing.TB
	surroundings *surroundings
	cleanups     []func()
	failed       error
}

// failure is what Fatal panics with.
type failure struct{ err error }

// run runs one benchmark.
func (p *program) run(f func(*program) []reading) (readings []reading, err error) {
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
	return f(p), nil
}

// server is the one database server.
func (p *program) server() *dbserver.Server {
	if p.surroundings.server == nil {
		server, err := dbserver.Start(p.Context(), dbserver.Options{Durable: true})
		p.must(err)
		p.surroundings.server = server
	}
	return p.surroundings.server
}

// must ends the benchmark where there is an error.
func (p *program) must(err error) {
	if err != nil {
		p.Fatal(err)
	}
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

// Errorf implements testing.TB.
func (p *program) Errorf(format string, args ...any) { p.Logf(format, args...) }

// Logf implements testing.TB.
func (p *program) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// TempDir implements testing.TB.
func (p *program) TempDir() string {
	dir, err := os.MkdirTemp("", "jobd-bench-")
	p.must(err)
	p.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
