package host

import (
	"testing"

	"jobd/exec/runner/wire"
)

// work is what a job does, in the words of the loop of a mode.
func work(mode, shell, perl string) string {
	if mode == "fork" {
		return "DO=" + perl
	}
	return "DO=" + shell
}

// A job of each mode from its start to its end, and the next ones.
func TestKeptProcessesRunJobs(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"fork", "pool"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.pools(pooled(mode, 2))
			for job := int64(1); job <= 5; job++ {
				done := b.run(job, work(mode, `echo "out $id"; echo err >&2; code=3`, `print "out $id\n"; print STDERR "err\n"; exit 3`))
				if done.Result != "fail" || done.Code == nil || *done.Code != 3 || string(done.Stderr.Kept) != "err\n" ||
					string(done.Stdout.Kept) != "out "+string(rune('0'+job))+"\n" || done.Reason != "" || done.Note != "" || done.Elapsed <= 0 {
					t.Fatalf("job %d: done %+v, stdout %q, stderr %q", job, done, done.Stdout.Kept, done.Stderr.Kept)
				}
			}
			b.stands("all have been counted", func(s wire.Standing) bool { return s.Jobs == 5 && s.Busy == 0 && s.Unready == "" })
		})
	}
}

// A process that says what it must not is killed, and the log says so. Its job ends with it.
func TestAProcessThatSaysWhatItMustNotIsKilled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ do, text, result string }{
		"garbage while the job runs": {`echo nonsense >&4; exec sleep 300`, `it wrote "nonsense" to descriptor 4, where exit 1 CODE is expected`, "fail"},
		"an end of another job":      {`echo exit 7 0 >&4; exec sleep 300`, `it wrote "exit 7 0"`, "fail"},
		"a code that there is not":   {`echo exit 1 256 >&4; exec sleep 300`, `it wrote "exit 1 256"`, "fail"},
		"something after the end":    {`code=0; echo "exit $id 0" >&4; echo more >&4; exec sleep 300`, `it wrote "more" to descriptor 4, where nothing is expected`, "ok"},
		"a line without an end":      {`printf %05000d 0 >&4; exec sleep 300`, `to descriptor 4, where exit 1 CODE is expected`, "fail"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.pools(pooled("pool", 1))
			done := b.run(1, "DO="+test.do)
			if done.Result != test.result {
				t.Errorf("done %+v", done)
			}
			if note := b.noted(test.text); note.Pid == 0 || note.Target != "mail" {
				t.Errorf("noted %+v", note)
			}
			b.stands("it is counted", func(s wire.Standing) bool { return s.Recycled["killed"] == 1 })
			if done := b.run(2, "DO=echo next"); done.Result != "ok" || string(done.Stdout.Kept) != "next\n" {
				t.Errorf("the next job: %+v", done)
			}
		})
	}
}
