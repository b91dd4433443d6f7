package segment

import (
	"context"
	"iter"
	"runtime"
	"sync"
)

// ahead maps values on all processors while the caller is busy with those before, and gives the
// results in order. It holds a few values at a time, and has left no goroutine behind when it
// returns. The sequence is run in a goroutine of its own, under a context that ends when nobody
// wants more. Its last error is ctx's where that ended before the sequence did.
func ahead[A, B any](ctx context.Context, values func(context.Context) iter.Seq2[A, error], work func(A) B) iter.Seq2[B, error] {
	type result struct {
		value B
		err   error
	}
	return func(yield func(B, error) bool) {
		caller := ctx
		ctx, cancel := context.WithCancel(ctx)
		results := make(chan chan result, runtime.GOMAXPROCS(0))
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		group.Go(func() {
			defer close(results)
			for value, err := range values(ctx) {
				one := make(chan result, 1)
				select {
				case results <- one:
				case <-ctx.Done():
					return
				}
				group.Go(func() { one <- result{work(value), err} })
			}
		})
		for one := range results {
			r := <-one
			if !yield(r.value, r.err) || r.err != nil {
				return
			}
		}
		if err := caller.Err(); err != nil { // the sequence may have been cut off, and must not look complete
			var none B
			yield(none, err)
		}
	}
}
