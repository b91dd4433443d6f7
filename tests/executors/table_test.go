package executors

import (
	"golang.org/x/sys/unix"

	"jobd/tests/harness"
)

// executor is something that runs jobs. Its name is that of its target, too.
type executor struct {
	name  string
	mode  string // launcher_mode; "": none is said
	words func(s *site, version string) string
	file  string // of the loop in examples/launchers; "": none
	run   string // and what stands there in place of the line that prints

	// Of a job's process, which it has written into the oracle: how many generations above it its
	// parent is, and the process that is the job itself to jobd; -1: there is none to be killed.
	parent, self int

	service bool                 // jobs are requests to the peer
	stays   bool                 // its processes have many jobs
	takes   map[unix.Signal]bool // the signals that its jobs can be sent; nil: all

	// What differs from a process of its own, by the name of the case.
	differs map[string]string
	// What is known of a job that runs when something is killed, by what is killed.
	known map[string]string
}

// What is known of a job.
const (
	unknown = "unknown"
	trueEnd = `ok 0 - "before\nafter\n" ""`
	bySIG   = `fail - SIGKILL "before\n" "[jobd: killed by a SIGKILL that was not jobd's]\n"`
	nothing = "" // there is no such thing to be killed
)

// late is a job that did not heed its timeout, but for SIGTERM.
const late = `fail - SIGTERM "out\n" "[jobd: ended after its timeout of 15s, with SIGTERM]\n"`

// What can be killed.
const (
	theWorker = "the worker"
	theRunner = "the runner"
	theParent = "the parent, or the process of the pool"
	theSelf   = "the child, or the peer"
	theHost   = "the host"
)

// overHTTP is what a request gives less. The peer answers 200 with what a job that has succeeded
// wrote to stdout; of one that has failed it tells the exit code, and both streams.
var overHTTP = map[string]string{
	"stderr":            `ok 0 - "out\n" ""`,
	"exit code":         `fail 7 - "" "HTTP/1.1 500 Internal Server Error\nout\n"`,
	"exit code 255":     `fail 255 - "" "HTTP/1.1 500 Internal Server Error\n"`,
	"SIGKILL":           `fail 5 - "" "HTTP/1.1 500 Internal Server Error\nout\n"`,
	"SIGTERM":           `fail 5 - "" "HTTP/1.1 500 Internal Server Error\nout\n"`,
	"timeout":           unknown,
	"timeout, deaf":     unknown,
	"both at the limit": `ok 0 - <4096 bytes> ""`,
	"cancelled":         unknown,
	"signalled":         unknown,
	"ended":             unknown,
}

// overFastCGI is the same of the script that php-fpm runs: status 500 stands for a signal.
var overFastCGI = map[string]string{
	"stderr":            `ok 0 - "out\n" ""`,
	"exit code":         `fail 7 - "" "Status: 200 OK\nout\n"`,
	"exit code 255":     `fail 255 - "" "Status: 200 OK\n"`,
	"SIGKILL":           `fail 5 - "" "Status: 500 Internal Server Error\nout\n"`,
	"SIGTERM":           `fail 5 - "" "Status: 500 Internal Server Error\nout\n"`,
	"timeout":           unknown,
	"timeout, deaf":     unknown,
	"both at the limit": `ok 0 - <4096 bytes> ""`,
	"cancelled":         unknown,
	"signalled":         unknown,
	"ended":             unknown,
}

func executors() []executor {
	python := func(file string) func(*site, string) string {
		return func(s *site, version string) string { return s.loop(file, "/usr/bin/python3", version) }
	}
	return []executor{
		{
			name: "process", parent: -1,
			words: func(s *site, version string) string { return s.path("job.sh") + " {id} " + version },
			known: map[string]string{theWorker: trueEnd, theRunner: unknown, theParent: nothing, theSelf: bySIG, theHost: unknown},
		},
		{
			name: "fork", mode: "fork", parent: 1, stays: true,
			file: "fork.pl", run: "{ exec $ARGV[0], $job, $ARGV[1] }",
			words: func(s *site, version string) string { return s.loop("fork.pl", "/usr/bin/perl", version) },
			known: map[string]string{theWorker: trueEnd, theRunner: unknown, theParent: trueEnd, theSelf: bySIG, theHost: unknown},
		},
		{
			name: "pool", mode: "pool", parent: 1, self: 1, stays: true,
			file: "pool.py", run: "return turn(job)", words: python("pool.py"),
			differs: map[string]string{"timeout, deaf": late}, // the script is deaf, and its process is not
			known:   map[string]string{theWorker: trueEnd, theRunner: unknown, theParent: bySIG, theSelf: bySIG, theHost: unknown},
		},
		{
			name: "http", service: true, parent: -1, self: 1,
			words:   func(s *site, version string) string { return s.peer.url + "/" + version + "/{id}" },
			takes:   map[unix.Signal]bool{unix.SIGTERM: true, unix.SIGINT: true, unix.SIGKILL: true},
			differs: overHTTP,
			known:   map[string]string{theWorker: unknown, theRunner: trueEnd, theParent: nothing, theSelf: unknown, theHost: unknown},
		},
		{
			name: "fastcgi", service: true, parent: -1, self: 1,
			words:   func(s *site, version string) string { return s.script(version) },
			takes:   map[unix.Signal]bool{unix.SIGTERM: true, unix.SIGINT: true, unix.SIGKILL: true},
			differs: overFastCGI,
			known:   map[string]string{theWorker: unknown, theRunner: trueEnd, theParent: nothing, theSelf: unknown, theHost: unknown},
		},
	}
}

// keys is an executor's section of the configuration.
func (e executor) keys(s *site, version string) harness.Settings {
	keys := harness.Settings{"launcher": e.words(s, version)}
	if e.mode != "" {
		keys["launcher_mode"] = e.mode
	}
	return harness.Terms(e.name, keys)
}

// want is what a case gives with this executor.
func (e executor) want(name, otherwise string) string {
	if differs, is := e.differs[name]; is {
		return differs
	}
	return otherwise
}
