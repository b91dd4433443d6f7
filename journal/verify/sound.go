package verify

import (
	"context"
	"log/slog"

	"jobd/journal"
	"jobd/journal/folder"
)

// Sound verifies what a worker's start would: the newest segment, that it follows the one before
// it, head file and position. It changes nothing, and may be asked while a worker has the journal.
// The time it takes is bounded by the distance of waypoints. A folder without a journal is sound.
func Sound(ctx context.Context, f *folder.Folder) error {
	parts, err := f.Settled(ctx)
	if err == nil && len(parts) > 0 {
		if newest := parts[len(parts)-1]; newest.Sealed {
			err = &journal.DamagedError{Detail: folder.DetailAllSealed}
		} else {
			err = newVerifier(f, against{}).runNewest(ctx, parts, slog.New(slog.DiscardHandler))
		}
	}
	if err != nil {
		return f.Failed("verify", err)
	}
	return nil
}
