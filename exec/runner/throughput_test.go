package runner

import (
	"io"
	"os/exec"
	"sync"
	"testing"

	"jobd/store/storetest/must"
)

// Jobs that all write much at once, against the same with nothing between, and the output thrown
// away.
func BenchmarkOutput(b *testing.B) {
	const jobs, size = 64, 16 << 20
	text := "exec head -c 16777216 /dev/zero"
	b.Run("runner", func(b *testing.B) {
		remote := must.Get(Open(workerConfig(b.TempDir())))(b)
		defer remote.Close()
		instance := must.Get(remote.Instance())(b)
		b.SetBytes(jobs * size)
		for b.Loop() {
			var all sync.WaitGroup
			for job := range int64(jobs) {
				spec := script(text)
				spec.Job, spec.Attempt, spec.Runner = job, 1, instance
				p := must.Get(remote.Start(spec))(b)
				all.Go(func() {
					if done, err := wait(p); err != nil || done.Stdout.Size != size {
						b.Errorf("%d bytes: %v", done.Stdout.Size, err)
					}
					remote.Forget(job, "", 1)
				})
			}
			all.Wait()
		}
	})
	b.Run("pipes", func(b *testing.B) {
		b.SetBytes(jobs * size)
		for b.Loop() {
			var all sync.WaitGroup
			for range jobs {
				all.Go(func() { readAll(b, text) })
			}
			all.Wait()
		}
	})
}

func readAll(b *testing.B, text string) {
	cmd := exec.Command("/bin/sh", "-c", text)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		b.Error(err)
		return
	}
	if err := cmd.Start(); err != nil {
		b.Error(err)
		return
	}
	if _, err := io.Copy(io.Discard, stdout); err != nil {
		b.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		b.Error(err)
	}
}
