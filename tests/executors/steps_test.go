package executors

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"jobd/tests/harness"
)

// step is one at which SIGKILL strikes a pool process that has a job, or the child that it has
// forked for it.
type step struct {
	mode, at string
	want     string // how that job ends
	ran      bool   // it may have run
}

var steps = []step{
	{"fork", "the parent has read", unknown, false},
	{"fork", "the parent has forked", unknown, false},
	{"fork", "the child has forked", unknown, false},
	{"fork", "the child leads a group", unknown, false},
	{"fork", "the child has said started", `fail - SIGKILL "" ` + notOurs, false},
	{"fork", "the child runs", `fail - SIGKILL "" ` + notOurs, true},
	{"fork", "the parent of one that runs", `ok 0 - "out\n" ""`, true},
	{"fork", "the parent has reaped", unknown, true}, // it alone knew
	{"fork", "the parent has said ended", `ok 0 - "out\n" ""`, true},
	{"pool", "it has read", unknown, false},
	{"pool", "it has said started", `fail - SIGKILL "" ` + notOurs, false},
	{"pool", "it runs", `fail - SIGKILL "" ` + notOurs, true},
	{"pool", "it has run", `fail - SIGKILL "out\n" ` + notOurs, true},
	{"pool", "it has said exit", `ok 0 - "out\n" ""`, true},
}

const notOurs = `"[jobd: killed by a SIGKILL that was not jobd's]\n"`

// stepsHead is what the loops have in common: with a job whose id ends in 0 the process is killed
// at a step.
const stepsHead = `use strict; use warnings; use IO::Handle; use POSIX (); $| = 1;
my ($dir, $mode, $at) = @ARGV;
my $id = -1;
sub strike { kill KILL => ($_[1] // $$) if $id % 10 == 0 && $_[0] eq $at }
sub note { open(my $o, ">>", "$dir/oracle"); syswrite $o, "$_[0] $id 1 one $$\n"; close $o }
sub work { note("start"); strike("$_[0] runs"); print $id % 10 ? "next\n" : "out\n"; note("end") }
open(my $in, "<&=", 3); open(my $out, ">&=", 4); $out->autoflush(1);
print $out "ready\n";
while (my $line = <$in>) {
    (my $word, $id) = split " ", $line;
    last if $word eq "quit";
`

// stepsLoops are the rest of them.
var stepsLoops = map[string]string{
	"fork": stepsHead + `
    strike("the parent has read");
    my $parent = $$;
    my $pid = fork;
    if ($pid) {
        strike("the parent has forked");
        waitpid $pid, 0;
        my $status = $?;
        strike("the parent has reaped");
        print $out "ended $id $status\n";
        strike("the parent has said ended");
        next;
    }
    sleep 300 if $id % 10 == 0 && $at eq "the parent has forked";
    strike("the child has forked");
    POSIX::setpgid(0, 0);
    strike("the child leads a group");
    print $out "started $id $$\n";
    strike("the child has said started");
    if ($id % 10 == 0 && $at eq "the parent of one that runs") {
        kill KILL => $parent;
        select undef, undef, undef, 0.01 while getppid() == $parent;
    }
    work("the child");
    POSIX::_exit(0);
}
`,
	"pool": stepsHead + `
    strike("it has read");
    print $out "started $id\n";
    strike("it has said started");
    work("it");
    strike("it has run");
    print $out "exit $id 0\n";
    strike("it has said exit");
}
`,
}

// What is known of a job whose process, or the parent of it, is killed is what the table of the
// page about executors says; at no step is a job started twice, or runs one that is said not to
// have been started.
func TestProcessesAreKilledAtEachStep(t *testing.T) {
	t.Parallel()
	s := newPlace(t)
	for mode, loop := range stepsLoops {
		s.program(mode+".pl", loop)
	}
	s.settings["launcher_split"] = "shell"
	for i, step := range steps {
		e := executor{name: fmt.Sprintf("s%02d", i)}
		s.executors = append(s.executors, e)
		s.settings = s.settings.With(harness.Targets(map[string]int{e.name: 1}), harness.Terms(e.name, harness.Settings{
			"launcher":      fmt.Sprintf("/usr/bin/perl %s %s %s %q", s.path(step.mode+".pl"), s.dir, step.mode, step.at),
			"launcher_mode": step.mode,
		}))
		s.insert(e, 0, "", waiting)
	}
	s.start()
	for i, step := range steps {
		t.Run(step.mode+": "+step.at, func(t *testing.T) {
			e := s.executors[i]
			if got := shown(s.AwaitDone(t, s.id(e, 0))); got != step.want {
				t.Errorf("it ended as %s, not as %s: %s", got, step.want, s.Row(t, s.id(e, 0)))
			}
			s.runsNext(t, e, 1)
			for _, line := range s.read() {
				if line.job == s.id(e, 0) && !step.ran {
					t.Errorf("it has run: %v", line)
				}
			}
		})
	}
	s.startedOnce()
}

// points are those at which the worker kills itself, see cmd/jobd/failpoints.go, that are reached
// for certain while each executor is given some jobs.
var points = []string{
	"accepted-appended", "commit-sent", "commit-answered", "running-appended", "start-asking", "start-asked", "started",
	"started-appended", "request-asking", "request-held", "request-proceeding", "request-proceeded", "exit-seen", "done-appended",
	"forgotten", "update-sent", "done-mirrored",
}

// The worker is killed at each step of a job, one after the other, while all executors have some.
// Nothing is started twice, nothing is lost, and only of requests some outcomes are unknown.
func TestTheWorkerIsKilledAtEachStep(t *testing.T) {
	t.Parallel()
	const slots, more = 2, 4
	armed := harness.Armed(t)
	l := &load{site: newSite(t, slots, harness.Settings{"prefetch": fmt.Sprint(slots)})} // a turn announces what was claimed ahead
	l.config = l.settings.Write(t)
	kills := 0
	for range harness.Size(1, 20) {
		for _, point := range points {
			l.insertMore(more)
			harness.Arm(t, l.settings["journal_dir"], point, 1+rand.IntN(2))
			if worker := harness.LaunchBinary(t, armed, l.config, l.settings.Addr()); worker.ExitCode(t) != -1 {
				t.Fatalf("it was not killed at %s, but ended by itself", point)
			}
			kills++
		}
	}
	harness.Disarm(t, l.settings["journal_dir"])
	l.start()
	l.audit(theWorker, kills*slots)
}
