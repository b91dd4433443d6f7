package service

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	jobexec "jobd/exec"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/api"
)

func TestRetry(t *testing.T) {
	t.Parallel()
	worker := &stub{setBack: jobexec.Answer[string]{Jobs: map[int64]string{5: "manual"}, Errors: map[int64]string{6: "job 6 not found"}, Requested: true}}
	query := api.RetryRows{
		IDs: []jobnet.Whole{5, 6}, Finished: map[jobnet.Whole]int64{5: 7}, To: map[jobnet.Whole]string{5: "manual"},
	}
	answer, err := newService(worker).Retry(context.Background(), asked("x"), query)
	want := api.RetriedRows{Jobs: map[jobnet.Whole]string{5: "manual"}, Errors: map[jobnet.Whole]string{6: "job 6 not found"}}
	if diff := cmp.Diff(want, answer); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff([]string{"retry [5 6] map[5:7] map[5:manual] by " + caller}, worker.did); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A retry of which no row was set back is a refusal, which the journal has.
func TestARetryInVainIsJournalled(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		worker *stub
		reason string
		fails  bool
	}{
		"no row was to be":   {&stub{setBack: jobexec.Answer[string]{Errors: map[int64]string{5: "x", 6: "y"}}}, "x; and 1 more", false},
		"the worker refuses": {&stub{refuses: jobexec.RefusedError("worker is stopping")}, "worker is stopping", true},
	} {
		_, err := newService(test.worker).Retry(context.Background(), asked("x"), api.RetryRows{IDs: []jobnet.Whole{5}})
		var refusal jobnet.Refusal
		if errors.As(err, &refusal) != test.fails {
			t.Errorf("%s: %v", name, err)
		}
		want := []journal.Payload{journal.Refused{Request: "retry", About: "x", Reason: test.reason, By: caller}}
		if diff := cmp.Diff(want, test.worker.events); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
