package contract

import (
	jobnet "jobd/net"
)

// Output asks for a part of what a job has written: of one that runs as it comes, of one that has
// ended what was kept. It may have to read the journal.
var Output = Request[OutputQuery, JobOutput]{Name: "output", Slow: true, read: readOutput}

// MostOutput is how many bytes of each stream one answer has at most.
const MostOutput = 64 << 10

// OutputQuery is the data of output. The offsets are those of the first byte wanted; below 0: so
// far before the newest one that is kept.
type OutputQuery struct {
	Job     jobnet.Whole `json:"job"`
	Attempt int          `json:"attempt,omitempty"` // 0: the newest
	Stdout  int64        `json:"stdout,omitempty"`
	Stderr  int64        `json:"stderr,omitempty"`
	Most    int          `json:"most,omitempty"` // bytes of each; 0: MostOutput
}

func readOutput(data jobnet.Fields) (q OutputQuery, err error) {
	if !data.Has("job") {
		return q, jobnet.Refusal("'job' is missing: the id of a job")
	}
	if q.Job, err = readID(data["job"]); err != nil {
		return q, err
	}
	attempt := int64(0)
	for name, into := range map[string]*int64{"attempt": &attempt, "stdout": &q.Stdout, "stderr": &q.Stderr} {
		if data.Has(name) {
			if *into, err = data.Int(name); err != nil {
				return q, err
			}
		}
	}
	if q.Attempt = int(attempt); attempt < 0 || attempt > mostAttempt {
		return q, jobnet.Refusef("attempt: %d is not allowed; allowed is 1 to %d, or none for the newest", attempt, mostAttempt)
	}
	q.Most, err = readMost(data, MostOutput)
	return q, err
}

// mostAttempt is more attempts than any job has.
const mostAttempt = 1_000_000_000

// JobOutput is the answer to output.
type JobOutput struct {
	Job     jobnet.Whole `json:"job"`
	Attempt int          `json:"attempt,omitempty"` // 0: the journal does not tell
	State   string       `json:"state"`             // OutputUnknown, OutputClaimed, OutputRunning or OutputEnded
	Running bool         `json:"running"`           // more may come
	Adopted bool         `json:"adopted,omitempty"` // its runner is gone, and nobody reads what it writes
	Stdout  OutputPart   `json:"stdout"`
	Stderr  OutputPart   `json:"stderr"`
	Done    *OutputEnd   `json:"done,omitempty"` // how it ended
}

// Where a job stands of which output is told.
const (
	OutputUnknown = "unknown" // it is not under way here, and the journal knows no end of it
	OutputClaimed = "claimed" // it has not started yet
	OutputRunning = "running"
	OutputEnded   = "ended"
)

// OutputPart is a part of a stream.
type OutputPart struct {
	At      int64  `json:"at"`                // the offset of its first byte, and of the next one wanted where it has none
	Bytes   []byte `json:"bytes,omitempty"`   // as the job wrote them; base64 on the wire
	Size    int64  `json:"size"`              // of all that the job wrote so far
	Skipped int64  `json:"skipped,omitempty"` // bytes before At that were wanted, and not kept
}

// OutputEnd is how a job ended.
type OutputEnd struct {
	Result string  `json:"result"`
	Code   *int    `json:"code"`
	Signal *string `json:"signal"`
	Reason string  `json:"reason,omitempty"` // why, where the process itself does not tell
	Note   string  `json:"note,omitempty"`   // what jobd adds to stderr where people look for it
	Ended  int64   `json:"ended"`            // unix milliseconds
}
