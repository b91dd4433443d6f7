package replay

import (
	"context"

	"jobd/journal"
	"jobd/journal/segment"
)

// Name is the name of the worker whose journal this is, as its newest segment has it; "" where no
// worker has opened it yet.
func (r *Reader) Name(ctx context.Context) (name string, err error) {
	err = r.folder.Backward(ctx, true, func(s segment.Source, h segment.Header) (enough bool, err error) {
		name, err = nameIn(ctx, s, h) // where it is damaged the segment before knows it too
		return name != "", err
	})
	if err != nil {
		return "", r.folder.Failed("read", err)
	}
	return name, nil
}

func nameIn(ctx context.Context, s segment.Source, h segment.Header) (string, error) {
	state, err := h.State()
	if err != nil || state.Name != "" {
		return nameOf(state), err
	}
	for page, err := range s.Records(ctx, segment.Selection{Kinds: []journal.Kind{journal.KindOpened}}) {
		if err != nil || len(page) == 0 {
			return "", err
		}
		opened, err := journal.PayloadOf[journal.Opened](page[0].Payload)
		return opened.Name, err
	}
	return "", nil
}

func nameOf(s *journal.State) string {
	if s == nil {
		return ""
	}
	return s.Name
}
