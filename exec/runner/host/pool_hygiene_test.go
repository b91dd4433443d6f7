package host

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/exec/runner/proctest"
	"jobd/exec/runner/wire"
	"jobd/store/storetest/check"
)

// perlLoop is a pool in Perl: it can do what a shell can't.
const perlLoop = `use POSIX; open(my $in, "<&=", 3); open(our $out, ">>&=", 4); $out->autoflush(1); $| = 1;
print $out "ready\n";
while (my $line = <$in>) {
  our ($word, $id, $attempt, @vars) = split ' ', $line;
  last if $word eq 'quit';
  s/%(..)/chr hex $1/ge, /^(\w+)=(.*)/s && ($ENV{$1} = $2) for @vars;
  print $out "started $id\n";
  eval $ENV{DO}; warn $@ if $@;
  print $out "exit $id 0\n";
}`

// What a process does that it must not is told, and takes neither another job nor another process
// with it; the slot goes on.
func TestHygiene(t *testing.T) {
	t.Parallel()
	const (
		alone = "exec sleep 300"
		// The job says that it is there, which its parent waits for.
		here  = `open(my $h, ">", $ENV{ONCE}); close $h; `
		there = `select(undef, undef, undef, 0.02) until -e $ENV{ONCE}; `
	)
	for name, test := range map[string]struct {
		mode, do, note, result string
		killed                 bool // and counted
		change                 func(p *wire.Pool)
	}{
		"leaves a child behind": {
			mode: "pool", do: "sleep 300 & disown; true", result: "ok", note: "job 1 left it in the process group of process",
		},
		"changes its group": {
			mode: "pool", do: `if (fork() == 0) { setpgid(0, 0); sleep 300; exit } select(undef, undef, undef, 0.01) until setpgid(0, LAST()); sub LAST { open(my $c, "<", "/proc/$$/task/$$/children"); (split ' ', <$c>)[0] }`,
			result: "ok", note: "has changed its process group", change: func(p *wire.Pool) { p.Argv = []string{"/usr/bin/perl", "-e", perlLoop} },
		},
		"writes half a line": {mode: "pool", do: "printf 'exit 1' >&4; exit 5", result: "fail", note: ""},
		"says that it is ready, again": {
			mode: "pool", do: "echo ready >&4; " + alone, result: "fail", note: `it wrote "ready" to descriptor 4`, killed: true,
		},
		"says garbage while its job runs": {
			mode: "pool", do: "echo nonsense >&4; " + alone, result: "fail", killed: true,
			note: `it wrote "nonsense" to descriptor 4, where exit 1 CODE is expected`,
		},
		"says the end of another job": {
			mode: "pool", do: "echo exit 7 0 >&4; " + alone, result: "fail", note: `it wrote "exit 7 0"`, killed: true,
		},
		"says a code that there is not": {
			mode: "pool", do: "echo exit 1 256 >&4; " + alone, result: "fail", note: `it wrote "exit 1 256"`, killed: true,
		},
		"says something after the end": {
			mode: "pool", do: `code=0; echo "exit $id 0" >&4; echo more >&4; ` + alone, result: "ok", killed: true,
			note: `it wrote "more" to descriptor 4, where nothing is expected`,
		},
		"says a line without an end": {
			mode: "pool", do: "printf %05000d 0 >&4; " + alone, result: "fail", killed: true,
			note: "to descriptor 4, where exit 1 CODE is expected",
		},
		"says nothing when its job has ended": {
			mode: "fork", do: "1", result: "ok", note: "has ended, and it has not reported that within 2s",
			change: func(p *wire.Pool) {
				p.Argv[2] = strings.Replace(forkLoop, "waitpid($pid, 0);", `sleep 300 if $id == 1; waitpid($pid, 0);`, 1)
			},
		},
		"says started for the process that it has forked": {
			mode: "fork", do: "1", result: wire.ResultLost, note: "and only the process that it has forked may say that",
			change: func(p *wire.Pool) {
				p.Argv[2] = strings.Replace(forkLoop, "my $pid = fork();", `if ($id == 1) { my $gone = fork(); exit 0 if !$gone; waitpid($gone, 0); print $out "started 1 $gone\n"; next }
  my $pid = fork();`, 1)
			},
		},
		"says that a job has ended which runs": {
			mode: "fork", do: here + "sleep 300", result: "fail", note: "",
			change: func(p *wire.Pool) {
				p.Argv[2] = strings.Replace(forkLoop, "waitpid($pid, 0);", `if ($id == 1) { `+there+`$? = 256 } else { waitpid($pid, 0) }`, 1)
			},
		},
		"says a status that there is not": {
			mode: "fork", do: here + "sleep 1", result: "ok", note: `it wrote "ended 1 127" to descriptor 4`,
			change: func(p *wire.Pool) {
				p.Argv[2] = strings.Replace(forkLoop, "waitpid($pid, 0);", `if ($id == 1) { `+there+`print $out "ended 1 127\n"; sleep 300 } waitpid($pid, 0);`, 1)
			},
		},
		"does not read that it is to start a job": {
			mode: "pool", do: "true", result: "ok", note: "it did not answer within 2s",
			change: func(p *wire.Pool) { p.Argv[2] = "mkdir $ONCE && { echo ready >&4; exec sleep 300; }; " + p.Argv[2] },
		},
		"does not answer": {
			mode: "pool", do: "true", result: wire.ResultLost, note: "it did not answer within 2s",
			change: func(p *wire.Pool) {
				p.Argv[2] = strings.Replace(p.Argv[2], `echo "started`, `test $id = 1 && sleep 300; echo "started`, 1)
			},
		},
		"forks into no group": {
			mode: "fork", do: "sleep 300", result: wire.ResultLost, note: "that process leads no process group",
			change: func(p *wire.Pool) {
				p.Argv[2] = strings.Replace(forkLoop, "setpgid(0, 0);", "setpgid(0, 0) if $id != 1;", 1)
			},
		},
		"names a process that is not its own": {
			mode: "fork", do: "sleep 300", result: wire.ResultLost, note: "which is no answer: it is not the process that said ready",
			change: func(p *wire.Pool) {
				p.Argv[2] = strings.Replace(forkLoop, `$id $$\n`, `$id " . ($id == 1 ? $ENV{STRANGER} : $$) . "\n`, 1)
			},
		},
		"names no process": {
			mode: "fork", do: "sleep 300", result: wire.ResultLost, note: "which is no answer: it is not the process that said ready",
			change: func(p *wire.Pool) {
				p.Argv[2] = strings.Replace(forkLoop, `$id $$\n`, `$id" . ($id == 1 ? "" : " $$") . "\n`, 1)
			},
		},
		"ends between two jobs": {
			mode: "pool", do: "true", result: "ok", note: "ended between two jobs, with exit code 9",
			change: func(p *wire.Pool) {
				p.Argv[2] = strings.Replace(p.Argv[2], `echo "exit $id $code" >&4`, `echo "exit $id $code" >&4; test $id = 1 && exit 9`, 1)
			},
		},
		"closes its output": {mode: "pool", do: "exec >&- 2>&-; true", result: "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBenchWith(t, func(ps *pools) { ps.times.tick, ps.times.answer = 50*time.Millisecond, 2*time.Second })
			p := pooled(test.mode, 2)
			p.Env = append(p.Env, "STRANGER="+strconv.Itoa(os.Getpid()), "ONCE="+t.TempDir()+"/once")
			if test.change != nil {
				test.change(&p)
			}
			b.pools(p)
			at := gate(t)
			b.start(2, bystander(p, at))
			b.of(2, wire.Started)
			b.start(1, "DO="+test.do)
			if done := b.done(1); done.Result != test.result {
				t.Errorf("done %+v", done)
			}
			if test.note != "" {
				note := b.noted(test.note)
				check.Equal(t, note.Target, "mail", "it is noted for")
			}
			if test.killed {
				b.stands("it is counted", func(s wire.Standing) bool { return s.Recycled["killed"] == 1 })
			}
			openGate(t, at)
			if done := b.done(2); done.Result != "ok" || string(done.Stdout.Kept) != "bystander\n" {
				t.Errorf("another job: %+v, stdout %q", done, done.Stdout.Kept)
			}
			if done := b.run(3, "DO="); done.Result != "ok" {
				t.Errorf("the next job: %+v", done)
			}
		})
	}
}

// bystander is a job that runs until a gate is opened, in the words of a pool's loop.
func bystander(p wire.Pool, at string) string {
	if strings.HasPrefix(p.Argv[0], "/usr/bin/perl") {
		return `DO=open(my $g, "<", "` + at + `"); <$g>; print "bystander\n"`
	}
	return "DO=read line <" + at + "; echo bystander"
}

// A job that leaves its group on purpose lives on, as in a process of its own. When it has ended
// nobody else reaps it: the runner does, as long as it forks, and is a subreaper no longer than that.
func TestWhatLeavesItsGroupLivesOn(t *testing.T) {
	t.Parallel()
	b := newBenchWith(t, func(ps *pools) { ps.times.tick = 20 * time.Millisecond })
	b.pools(pooled("fork", 1))
	here, at := gate(t), gate(t)
	done := b.run(1, `DO=if (fork() == 0) { setsid(); close STDOUT; close STDERR; exit if fork(); open(my $h, ">", "`+here+`"); print $h $$; close $h; open(my $g, "<", "`+at+`"); <$g>; exit } wait; open(my $h, ">", "`+here+`.on"); print "out"`)
	if string(done.Stdout.Kept) != "out" {
		t.Errorf("stdout %q", done.Stdout.Kept)
	}
	daemon := pidIn(t, here)
	who, there := proc.RelativesOf(daemon)
	if !there || who.Ended || who.Parent != os.Getpid() {
		t.Errorf("it is %+v, %t", who, there)
	}
	openGate(t, at)
	proctest.Until(t, "it is reaped", func() bool { return unix.Kill(daemon, 0) != nil })
	b.pools()
	b.until("no pool is left", func() bool { return len(b.standings) == 0 })
	proctest.Until(t, "the runner adopts nobody any more", func() bool {
		adopts := make(chan bool)
		b.local.do(func() { adopts <- b.local.pools.adopts })
		return !<-adopts
	})
}

// A launcher that can't start a job says so: the job was never started, and the process has the next
// one.
func TestALauncherRefusesAJob(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	p := pooled("fork", 1)
	p.Argv[2] = strings.Replace(forkLoop, "my $pid = fork();", "my $pid = $id == 2 ? undef : fork();", 1)
	b.pools(p)
	first := b.run(1, pid("fork"))
	b.start(2)
	m := b.of(2, wire.Refused)
	check.Equal(t, m.Class, wire.Short, "refused %+v", m)
	if next := b.run(3, pid("fork")); string(next.Stdout.Kept) != string(first.Stdout.Kept) {
		t.Errorf("process %s, then %s", first.Stdout.Kept, next.Stdout.Kept)
	}
}

// What a newer worker may want, and this runner can't, is not there; what it can is.
func TestWhatIsNoPool(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	other, empty := pooled("thread", 1), pooled("pool", 1)
	other.Target, empty.Target, empty.Argv = "other", "empty", nil
	b.pools(other, empty, pooled("pool", 1))
	done := b.run(1, "DO=echo out")
	check.Equal(t, done.Result, "ok", "done %+v", done)
	b.until("there is one pool", func() bool { return len(b.standings) == 1 && b.standings[0].Jobs == 1 })
}

func TestLines(t *testing.T) {
	t.Parallel()
	line, err := runLine(7, 2, []string{"JOBD_A=b c%\n\xff", "JOBD_URL=https://x/y?z"})
	if want := "run 7 2 JOBD_A=b%20c%25%0A%FF JOBD_URL=https://x/y%3Fz\n"; string(line) != want || err != nil {
		t.Errorf("%q, want %q: %v", line, want, err)
	}
	if _, err := runLine(7, 2, []string{strings.Repeat("x", mostLine)}); err == nil {
		t.Error("a line that is too long was made")
	}
	if line, err := runLine(7, 2, []string{strings.Repeat("x", mostLine-len("run 7 2 "))}); len(line) != mostLine+1 || err != nil {
		t.Errorf("%d bytes: %v", len(line), err)
	}
	for text, want := range map[string]answer{
		"ready": {word: "ready"}, "started 7": {word: "started", job: 7}, "started 7 12": {word: "started", job: 7, number: 12, has: true},
		"refused 7": {word: "refused", job: 7}, "exit 7 255": {word: "exit", job: 7, number: 255, has: true}, "ended 7 0": {word: "ended", job: 7, has: true},
		"started 1 2147483647": {word: "started", job: 1, number: 2147483647, has: true}, "ended 1 65535": {word: "ended", job: 1, number: 65535, has: true},
		"exit 9223372036854775807 0": {word: "exit", job: 9223372036854775807, has: true},
	} {
		want.line = text
		if got, ok := parseAnswer([]byte(text)); got != want || !ok {
			t.Errorf("%s: %+v, %t", text, got, ok)
		}
	}
	for _, text := range []string{
		"", " ", "ready ", "ready 1", "Ready", "started", "started ", "started x", "started 7 ", "started 7 8 9", "started -7",
		"started +7", "started 7  8", "exit 7", "exit 7 x", "exit 7 1 2", "ended 7", "refused", "refused 7 1",
		"exit 99999999999999999999 1", "run 7", "started 7\r", "started\x007",
		// The system would take these for others: 4294967296 for a status of 0, and -4294967297 for all processes.
		"started 1 2147483648", "started 1 4294967297", "started 1 18446744073709551617", "started 1 -1", "ended 1 65536",
		"ended 1 4294967296", "exit 1 256", "exit 1 18446744073709551616", "exit 9223372036854775808 0",
		"exit 18446744073709551617 0", "refused 18446744073709551617", "exit 1 " + strings.Repeat("9", 400), "exit 1 ",
	} {
		if got, ok := parseAnswer([]byte(text)); ok {
			t.Errorf("%q is %+v", text, got)
		}
	}
}
