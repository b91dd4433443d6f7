package reason

import (
	"testing"
	"time"
)

// The command that runs a manual job is the one for the daemon that was asked: a master needs the
// job's target.
func TestHowAManualJobIsRun(t *testing.T) {
	t.Parallel()
	answers := []Answer{of("node-1", job{Row: &row{Target: "mail", Status: "manual"}, Target: idle})}
	for master, want := range map[bool]string{false: "jobctl run-manual 5", true: "jobctl --master run-manual mail:5"} {
		want = "job 5 is manual: it runs when somebody asks for it (" + want + ")"
		if got := Of(Question{Job: 5, Master: master, Now: now, Location: time.UTC}, answers); got.Sentence != want {
			t.Errorf("%s\nwant %s", got.Sentence, want)
		}
	}
}
