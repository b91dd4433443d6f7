package verify_test

import (
	"bytes"
	"slices"
	"testing"

	"jobd/journal"
	"jobd/journal/replay"
	"jobd/journal/verify"
)

// auditFolder audits a folder; nothing where it can't even be opened, which is not silent.
func auditFolder(t *testing.T, dir string, anchors []journal.Anchor) (*verify.Audited, error) {
	t.Helper()
	r, err := replay.Open(dir)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return verify.Audit(t.Context(), r.Folder(), anchors, nil)
}

func sameEvents(a, b map[uint64][]byte) bool {
	for seq, content := range a {
		if !bytes.Equal(content, b[seq]) {
			return false
		}
	}
	return len(a) == len(b)
}

// checkProven checks that ranges are in order, that what they call proven is what was written, that
// they have a bad one exactly where there is an error about events, and that an anchor that
// disagrees leaves nothing sound before it.
func checkProven(t *testing.T, s scene, dir string, a *verify.Audited, anchors []journal.Anchor, err error) {
	t.Helper()
	raw := rawEvents(t, dir)
	last := uint64(0)
	for _, r := range a.Ranges {
		if r.First <= last || r.Last < r.First {
			t.Errorf("ranges are not in order: %v", verdicts(a))
		}
		last = r.Last
		if (r.Verdict == verify.Damaged || r.Verdict == verify.Missing) && err == nil {
			t.Errorf("no error, and %v", verdicts(a))
		}
		for seq := r.First; r.Verdict == verify.Proven && seq <= r.Last; seq++ {
			if !bytes.Equal(raw[seq], s.truth[seq]) || raw[seq] == nil {
				t.Errorf("event %d is called proven and is not what was written: %v", seq, verdicts(a))
				return
			}
		}
	}
	agreed := uint64(0)
	for _, anchor := range anchors {
		content, there := raw[anchor.Seq]
		switch {
		case !there:
		case bytes.Equal(content, s.truth[anchor.Seq]) && proven(a, anchor.Seq):
			agreed = anchor.Seq
		case !bytes.HasSuffix(content, anchor.Hash[:]) && !bytes.Equal(unhashed(content), unhashed(s.truth[anchor.Seq])):
			for _, r := range a.Ranges {
				if r.Verdict == verify.Consistent && r.Last > agreed && r.First <= anchor.Seq {
					t.Errorf("the anchor of %d disagrees, and: %v", anchor.Seq, verdicts(a))
				}
			}
		}
	}
}

// unhashed is what a record's hash is made of, without the hash before it.
func unhashed(raw []byte) []byte { return raw[:len(raw)-len(journal.Hash{})] }

func proven(a *verify.Audited, seq uint64) bool {
	return slices.ContainsFunc(a.Ranges, func(r verify.Range) bool { return r.Verdict == verify.Proven && r.First <= seq && seq <= r.Last })
}
