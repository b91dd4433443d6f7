package replay

import (
	"context"

	"jobd/journal"
	"jobd/journal/folder"
	"jobd/journal/segment"
)

// Name is the name of the worker whose journal this is, as its newest segment has it; "" where no
// worker has opened it yet.
func (r *Reader) Name(ctx context.Context) (string, error) {
	name := ""
	parts, err := r.folder.Present(ctx)
	for i := len(parts) - 1; i >= 0 && err == nil && name == ""; i-- {
		err = r.folder.Visit(ctx, parts[i], 0, func(_ folder.Part, s segment.Source, h segment.Header) error {
			state, err := h.State()
			if err != nil || state.Name != "" {
				name = stateName(state)
				return err
			}
			for page, err := range s.Records(ctx, segment.Selection{Kinds: []journal.Kind{journal.KindOpened}}) {
				if err != nil || len(page) == 0 {
					return err
				}
				opened, err := journal.PayloadOf[journal.Opened](page[0].Payload)
				name = opened.Name
				return err
			}
			return nil
		})
		if segment.IsDamage(err) {
			err = nil // the segment before knows it too
		}
	}
	if err != nil {
		return "", r.folder.Failed("read", err)
	}
	return name, nil
}

func stateName(s *journal.State) string {
	if s == nil {
		return ""
	}
	return s.Name
}
