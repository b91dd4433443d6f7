package history

import "jobd/journal/verify"

// Range is events that follow each other and of which the same is known.
type Range struct {
	First   uint64         `json:"first"`
	Last    uint64         `json:"last"`
	Verdict verify.Verdict `json:"verdict"`          // proven, consistent, damaged, missing or removed
	Detail  string         `json:"detail,omitempty"` // what is wrong, or who removed it
}

// Fault is something that is wrong with a file, or what shows that a range is not what was written.
type Fault struct {
	Event  uint64 `json:"event,omitempty"` // where it was met; 0 where no event can be named
	File   string `json:"file,omitempty"`  // the file that is damaged, by its name in the folder
	Detail string `json:"detail"`
}

// Bounds of what a verdict lists.
const (
	mostRanges = 1000
	mostFaults = 100
)

// add adds to a verdict what is known range by range.
func (v *Verdict) add(a *verify.Audited) {
	v.Proven, v.Unproven = a.Proven, a.Unproven
	for _, r := range a.Ranges {
		if len(v.Ranges) == mostRanges {
			v.More++
			continue
		}
		v.Ranges = append(v.Ranges, Range{r.First, r.Last, r.Verdict, r.Detail})
	}
	v.More += a.More
	for i := range a.Faults {
		f := &a.Faults[i]
		if f.Last > 0 && f.File == "" {
			continue // its range says so
		}
		if len(v.Faults) == mostFaults {
			v.More++
			continue
		}
		v.Faults = append(v.Faults, Fault{f.First, f.File, f.Text()})
	}
	if v.Sound {
		return
	}
	for _, r := range a.Ranges {
		if r.Verdict == verify.Damaged || r.Verdict == verify.Missing {
			if v.Events = r.First - 1; v.Events != a.State.Seq {
				v.Hash = ""
			}
			return
		}
	}
	if n := len(a.Ranges); n > 0 {
		v.Events = a.Ranges[n-1].Last
	}
}
