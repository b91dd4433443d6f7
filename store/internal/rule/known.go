package rule

import (
	"context"
	"sync/atomic"
)

// Known is what the examination of a table has found; nil until then. The examination keeps it.
type Known[L any] struct{ atomic.Pointer[L] }

// Get gives it; where it is not known, the table is examined.
func (k *Known[L]) Get(ctx context.Context, examine func(context.Context) error) (*L, error) {
	if known := k.Load(); known != nil {
		return known, nil
	}
	if err := examine(ctx); err != nil {
		return nil, err
	}
	return k.Load(), nil
}
