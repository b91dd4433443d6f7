package executors

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/tests/harness"
)

// languages are the loops of examples/launchers, in each language: executors, too. Their jobs run
// the script as a program of theirs would: they wait for it, and end as it has.
func languages() []executor {
	loop := func(file, interpreter, body string) executor {
		mode, _, _ := strings.Cut(file, ".")
		e := executor{
			name: strings.Replace(file, ".", "-", 1), mode: mode, file: file, run: body, parent: 1, self: 1, stays: true,
			words:   func(s *site, version string) string { return s.loop(file, interpreter, version) },
			differs: map[string]string{"timeout, deaf": late}, // the script is deaf, and its process is not
			known:   map[string]string{theWorker: trueEnd, theRunner: unknown, theParent: bySIG, theSelf: bySIG, theHost: unknown},
		}
		if mode == "fork" {
			e.parent, e.known[theParent] = 2, trueEnd
		}
		return e
	}
	return []executor{
		loop("fork.php", "/usr/bin/php", turnInForkedPHP), loop("pool.php", "/usr/bin/php", turnInForkedPHP),
		loop("fork.py", "/usr/bin/python3", "return turn(job)"),
		loop("fork.rb", "/usr/bin/ruby", turnInRuby), loop("pool.rb", "/usr/bin/ruby", turnInRuby),
		loop("pool.cjs", "/usr/bin/node", turnInNode),
	}
}

// How a job runs the script in each language, and ends by the signal that has ended it.
const (
	turnInForkedPHP = `$child = pcntl_fork();
    if ($child === 0) pcntl_exec($GLOBALS['argv'][1], [(string) $id, $GLOBALS['argv'][2]]);
    pcntl_waitpid($child, $status);
    if (pcntl_wifsignaled($status)) posix_kill(getmypid(), pcntl_wtermsig($status));
    return pcntl_wexitstatus($status);`
	turnInRuby = `trap "INT", "SYSTEM_DEFAULT" # it ends a process, as elsewhere
  system(ARGV[0], job.to_s, ARGV[1])
  Process.kill($?.termsig, $$) if $?.signaled?
  return $?.exitstatus`
	turnInNode = `const job_ = require('node:child_process').spawnSync(process.argv[2], [String(job), process.argv[3]], { stdio: 'inherit' });
  if (job_.signal) process.kill(process.pid, job_.signal);
  return job_.status;`
)

// few are the cases that each language has in the short form; the long one has all.
var few = map[string]bool{
	"output": true, "stderr": true, "exit code": true, "exit code 255": true, "SIGKILL": true, "SIGTERM": true, "timeout": true,
	"beyond the limit": true, "bytes that are no text": true, "stdin is empty": true, "a child keeps the pipe": true, "tried again": true,
}

// Every loop in examples/launchers runs jobs as a process of their own does. Of two slots the timeout
// holds one; each slot more would be three interpreters more that start at once.
func TestLanguages(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, languages(), 2, harness.Settings{"max_output_buffer": "4096"})
	s.runCases(t, func(name string) bool { return long() || few[name] })
}

// What is sent to a job reaches it in every language.
func TestLanguagesSignalled(t *testing.T) {
	t.Parallel()
	s := newSiteOf(t, languages(), 1)
	s.signalAll(t)
}

// No language is forgotten.
func TestEveryLoopIsTried(t *testing.T) {
	t.Parallel()
	tried := map[string]bool{"fastcgi.php": true} // of the services
	for _, e := range append(executors(), languages()...) {
		tried[e.file] = true
	}
	files, err := os.ReadDir(filepath.Join(harness.Top(), "examples", "launchers"))
	if err != nil || len(files) == 0 {
		t.Fatal("there are no loops: ", err)
	}
	for _, file := range files {
		if !tried[file.Name()] {
			t.Error(file.Name(), " is in no table")
		}
	}
}
