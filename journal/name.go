package journal

import (
	"context"
	"errors"
)

// Name is the name of the worker whose journal this is: as of its newest run, or, where retention has removed the beginning
// of that, as the oldest segment has it. It is "" where the journal tells of no run.
func (r *Reader) Name(ctx context.Context) (string, error) {
	for e, err := range r.Events(ctx, Filter{Kinds: []Kind{KindOpened}, Last: 1}) {
		if opened, ok := e.Payload.(Opened); ok || err != nil {
			return opened.Name, err
		}
	}
	name := ""
	err := r.walk(ctx, 0, func(_ part, _ source, h header) error {
		before, err := h.state()
		if err != nil {
			return err
		}
		name = before.Name
		return errEnough
	})
	if err != nil && !errors.Is(err, errEnough) {
		return "", r.failed("read", err)
	}
	return name, nil
}
