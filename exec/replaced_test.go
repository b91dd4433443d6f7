package exec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/journal"
)

// A runner in whose place another one is, and that did not end in order, is an event of its own.
func TestARunnerThatWasReplacedIsJournalled(t *testing.T) {
	t.Parallel()
	for before, want := range map[string][]journal.Runner{
		"":            nil,
		instance:      nil,
		endedInstance: nil,
		"runner-0":    {{Instance: instance, Before: "runner-0"}},
	} {
		t.Run(before, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, newTable(waiting(1, "a")), nil)
			f.build(func(c *jobexec.Config) { c.Displaced = before })
			f.start()
			f.next().exit(0)
			f.wait("the job is done", ended(1))
			var got []journal.Runner
			for _, e := range f.events(0) {
				if replaced, is := e.Payload.(journal.Runner); is {
					got = append(got, replaced)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
