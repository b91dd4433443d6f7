package rule

import (
	"context"
	"sync/atomic"
)

// Known is what the examination of a table has found; nil until then.
type Known[L any] struct {
	atomic.Pointer[L]
	// Examine examines the table and keeps what it found.
	Examine func(context.Context) error
}

// Get gives it; where it is not known, the table is examined.
func (k *Known[L]) Get(ctx context.Context) (*L, error) {
	if known := k.Load(); known != nil {
		return known, nil
	}
	if err := k.Examine(ctx); err != nil {
		return nil, err
	}
	return k.Load(), nil
}
