package executors

import (
	"fmt"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// unrulyProcess does what it must not, in Perl: with its first job, unless it is said that it is
// otherwise.
type unrulyProcess struct {
	name  string
	asked string // before it says that the job is started
	does  string // as its job
	ends  string // in place of saying that it has ended
	boots string // before it is ready

	want     string // how that job ends
	log      string // what is said of it, with the target's name
	recycled string // and counted; "": nothing is
}

var unruly = []unrulyProcess{
	{
		name: "writes after its exit", ends: `print $out "exit $id 0\n"; wait_for("after"); print "late\n";`,
		want: `ok 0 - "" ""`, log: `: "late"`,
	},
	{
		name: "leaves a child", does: `if (!fork) { exec "sleep", "300" }`,
		want: `ok 0 - "" ""`, log: "has left it behind in the group of process",
	},
	{
		name: "changes its group", does: `setpgrp(0, getpgrp(getppid)) or die $!;`,
		want: `ok 0 - "" ""`, log: "has changed its process group", recycled: "group",
	},
	{
		name: "grows", does: `our $memory = "x" x (60_000_000 + $id);`,
		want: `ok 0 - "" ""`, log: "more than max_memory", recycled: "max_memory",
	},
	{
		name: "is too large from the start", boots: `our $memory = "x" x (60_000_000 + $$);`,
		want: `ok 0 - "" ""`, log: "more than max_memory", recycled: "max_memory",
	},
	{
		name: "writes half a line and ends", ends: `print $out "exit $id"; exit 5;`,
		want: `fail 5 - "" ""`, log: "code=5",
	},
	{
		name: "writes a line in two halves", ends: `print $out "exit $id"; select undef, undef, undef, 0.1; print $out " 6\n";`,
		want: `fail 6 - "" ""`, log: "code=6",
	},
	{
		name: "writes garbage", does: `print $out "hello\n"; sleep 300;`,
		want: killed(`it wrote "hello" to descriptor 4, where exit ID CODE is expected`), log: "hello", recycled: "killed",
	},
	{
		name: "writes bytes", does: `print $out "\0\377\n"; sleep 300;`,
		want: killed(`it wrote "\x00\xff" to descriptor 4, where exit ID CODE is expected`), log: "descriptor 4", recycled: "killed",
	},
	{
		name: "writes 5,000 bytes", does: `print $out "x" x 5000; sleep 300;`,
		want: killed(`it wrote "` + strings.Repeat("x", 100) + `" to descriptor 4, where exit ID CODE is expected`), log: "xxxxxxxx", recycled: "killed",
	},
	{
		name: "starts twice", does: `print $out "started $id\n"; sleep 300;`,
		want: killed(`it wrote "started ID" to descriptor 4, where exit ID CODE is expected`), log: "started", recycled: "killed",
	},
	{
		name: "is ready twice", does: `print $out "ready\n"; sleep 300;`,
		want: killed(`it wrote "ready" to descriptor 4, where exit ID CODE is expected`), log: "ready", recycled: "killed",
	},
	{
		name: "ends another job", ends: `print $out "exit 77 0\n"; sleep 300;`,
		want: killed(`it wrote "exit 77 0" to descriptor 4, where exit ID CODE is expected`), log: "exit 77 0", recycled: "killed",
	},
	{
		name: "answers twice", ends: `print $out "exit $id 0\n"; wait_for("after"); print $out "exit $id 0\n"; sleep 300;`,
		want: `ok 0 - "" ""`, log: "where nothing is expected", recycled: "killed",
	},
	{
		name: "starts another job", asked: `print $out "started 77\n"; sleep 300;`,
		want: unknown, log: "started 77", recycled: "killed",
	},
	{
		name: "ends before it starts", asked: `print $out "exit $id 0\n"; sleep 300;`,
		want: unknown, log: "where started ID or refused ID is expected", recycled: "killed",
	},
	{
		name: "does not answer", asked: `sleep 300;`,
		want: unknown, log: "did not answer within 5s", recycled: "killed",
	},
	{
		name: "does not read", boots: `if (mkdir "$dir/$name.once") { print $out "ready\n"; sleep 300 }`,
		want: `ok 0 - "" ""`, log: "before it had read that it was to start the job", recycled: "killed",
	},
	{
		name: "refuses once", asked: `if (mkdir "$dir/$name.once") { print $out "refused $id\n"; next }`,
		want: `ok 0 - "" ""`, log: "has refused the job",
	},
	{
		name: "ends between two jobs", ends: `print $out "exit $id 0\n"; exit 9;`,
		want: `ok 0 - "" ""`, log: "ended between two jobs, with exit code 9", recycled: "ended",
	},
}

// killed is a job whose process was killed.
func killed(why string) string {
	return fmt.Sprintf("fail - SIGKILL %q %q", "", "[jobd: its process was killed: "+why+"]\n")
}

// unrulyLoop is the loop that they have in common. A job's id ends in 0, of the one with which
// something is done; in 1, of another one that runs meanwhile; in 2, of the next.
const unrulyLoop = `use strict; use warnings; use IO::Handle; $| = 1;
our ($dir, $name, $out) = @ARGV;
open(my $in, "<&=", 3); open($out, ">&=", 4); $out->autoflush(1);
sub wait_for { select undef, undef, undef, 0.01 until -e "$dir/$name.$_[0]" }
sub note { open(my $o, ">>", "$dir/oracle"); syswrite $o, "$_[0] $_[1] 1 one $$\n" }
BOOTS
print $out "ready\n";
while (my $line = <$in>) {
    my ($word, $id) = split " ", $line;
    last if $word eq "quit";
    if ($id % 10 == 0) { ASKED }
    print $out "started $id\n";
    note("start", $id);
    if ($id % 10 == 0) { DOES }
    elsif ($id % 10 == 1) { wait_for("gate"); print "bystander\n" }
    else { print "next\n" }
    if ($id % 10 == 0) { ENDS }
    print $out "exit $id 0\n";
}
`

// What a process does that it must not is told in the log, and counted; it takes no other job and
// no other process with it, and the next job of its target goes well.
func TestHygiene(t *testing.T) {
	t.Parallel()
	s := newPlace(t)
	for i, u := range unruly {
		target := fmt.Sprintf("u%02d", i)
		ends := u.ends
		if ends != "" {
			ends += " next;"
		}
		s.program(target+".pl", strings.NewReplacer("BOOTS", u.boots, "ASKED", u.asked, "DOES", u.does, "ENDS", ends).Replace(unrulyLoop))
		s.executors = append(s.executors, executor{name: target})
		s.settings = s.settings.With(harness.Targets(map[string]int{target: 2}), harness.Terms(target, harness.Settings{
			"launcher": "/usr/bin/perl " + s.path(target+".pl") + " " + s.dir + " " + target, "launcher_mode": "pool", "max_memory": "40MiB",
		}))
		s.insert(executor{name: target}, 1, "", waiting)
	}
	t.Cleanup(func() { // those that wait are killed with their runner otherwise
		for i := range unruly {
			harness.Touch(t, s.path(fmt.Sprintf("u%02d.gate", i)))
		}
	})
	worker := s.start()
	for i := range unruly {
		e := executor{name: fmt.Sprintf("u%02d", i)}
		s.awaitStart(s.id(e, 1), 1)
		s.insert(e, 0, "", waiting)
	}
	s.poke()
	for i, u := range unruly {
		t.Run(u.name, func(t *testing.T) { s.unruly(t, worker, fmt.Sprintf("u%02d", i), &u) })
	}
	s.startedOnce()
}

func (s *site) unruly(t *testing.T, worker *harness.Daemon, target string, u *unrulyProcess) {
	e := executor{name: target}
	id := s.id(e, 0)
	named := strings.NewReplacer("ID", fmt.Sprint(id))
	told := func() {
		harness.Until(t, func() string { return tells(worker.Output(), "target="+target, named.Replace(u.log)) })
		harness.Touch(t, s.path(target+".told"))
	}
	if got := shown(s.AwaitDone(t, id)); got != named.Replace(u.want) {
		t.Errorf("its job ended as %s, not as %s", got, named.Replace(u.want))
	}
	harness.Touch(t, s.path(target+".after"))
	told()
	harness.Until(t, func() string {
		if got := s.standings()[target].Recycled; u.recycled != "" && got[u.recycled] != 1 {
			return fmt.Sprintf("status counts %v, and not one %s", got, u.recycled)
		}
		return ""
	})
	s.runsNext(t, e, 2)
	if status := s.Row(t, s.id(e, 1)).Status; status != "running" {
		t.Errorf("another job is %s", status)
	}
	harness.Touch(t, s.path(target+".gate"))
	if got, want := shown(s.AwaitDone(t, s.id(e, 1))), `ok 0 - "bystander\n" ""`; got != want {
		t.Errorf("another job ended as %s, not as %s", got, want)
	}
}

// tells says whether a line of a log has both words.
func tells(log, word, text string) (missing string) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, word) && strings.Contains(line, text) {
			return ""
		}
	}
	return fmt.Sprintf("the log does not say %q with %s", text, word)
}
