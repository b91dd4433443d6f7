package live

import (
	"context"
	"io"
	"strings"
	"testing"
)

// What is printed about a job ends with a key, be it over or not; so it does with the view.
func TestAsidesEndWithAKey(t *testing.T) {
	t.Parallel()
	f := oneWorker()
	job := f.running.Jobs[0]
	in, key := io.Pipe()
	for name, test := range map[string]struct {
		print func(context.Context, Job) error
		in    io.Reader
		end   func(cancel func())
	}{
		"a page":           {print: f.Show, in: strings.NewReader("q"), end: func(func()) {}},
		"an output":        {print: f.Follow, in: strings.NewReader("\x1b"), end: func(func()) {}},
		"the view is over": {print: f.Follow, in: in, end: func(cancel func()) { cancel() }},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		a := &aside{ctx: ctx, print: func(ctx context.Context) error { return test.print(ctx, job) }}
		a.SetStdin(test.in)
		a.SetStdout(io.Discard)
		ended := make(chan error, 1)
		go func() { ended <- a.Run() }()
		test.end(cancel)
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		cancel()
	}
	_ = key.Close()
	if len(f.printed) != 3 || f.printed[0].Job != job.Job {
		t.Errorf("printed: %v", f.printed)
	}
}
