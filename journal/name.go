package journal

import "context"

// Name is the name of the worker whose journal this is, as its newest segment has it; "" where no worker has opened it yet.
func (r *Reader) Name(ctx context.Context) (string, error) {
	name := ""
	parts, err := r.present(ctx)
	for i := len(parts) - 1; i >= 0 && err == nil && name == ""; i-- {
		err = r.visit(ctx, parts[i], 0, func(_ part, s source, h header) error {
			state, err := h.state()
			if err != nil || state.Name != "" {
				name = stateName(state)
				return err
			}
			for page, err := range s.records(ctx, selection{kinds: []Kind{KindOpened}}) {
				if err != nil || len(page) == 0 {
					return err
				}
				opened, err := payloadOf[Opened](page[0].payload)
				name = opened.Name
				return err
			}
			return nil
		})
		if isDamage(err) {
			err = nil // the segment before knows it too
		}
	}
	if err != nil {
		return "", r.failed("read", err)
	}
	return name, nil
}

func stateName(s *State) string {
	if s == nil {
		return ""
	}
	return s.Name
}
