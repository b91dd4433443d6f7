package journal

import (
	"context"
	"log/slog"
)

// Sound verifies what a worker's start would: the newest segment, that it follows the one before it, head file and position. It
// changes nothing, and may be asked while a worker has the journal. The time it takes is bounded by the distance of waypoints. A folder
// without a journal is sound.
func (r *Reader) Sound(ctx context.Context) error {
	parts, err := r.settled(ctx)
	if err == nil && len(parts) > 0 {
		if newest := parts[len(parts)-1]; newest.sealed {
			err = &DamagedError{Detail: detailAllSealed}
		} else {
			err = newVerifier(r, Audit{}).runNewest(ctx, parts, slog.New(slog.DiscardHandler))
		}
	}
	if err != nil {
		return r.failed("verify", err)
	}
	return nil
}
