package api

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	jobnet "jobd/net"
	"jobd/net/principal"
)

// The requests about journals. A master hands them on to its workers and reads no more of them than
// the field worker, so their data and the items of their streams, which speak of events and rows,
// stand in cmd/internal/history.
const (
	JournalAnchor  = "journal-anchor"
	JournalRows    = "journal-rows"
	JournalEvents  = "journal-events"
	JournalState   = "journal-state"
	JournalVerify  = "journal-verify"
	JournalDiff    = "journal-diff"
	JournalReapply = "journal-reapply"
	JournalNext    = "journal-next"
	JournalClose   = "journal-close"
)

// Opened is the answer to a request that opens a stream.
type Opened struct {
	Name   string `json:"name"` // the worker's
	Cursor string `json:"cursor"`

	// Understood names those of the request's fields that workers of older versions pass over.
	Understood []string `json:"understood,omitempty"`
}

// Cursor is the data of the requests about an open stream.
type Cursor struct {
	Cursor string `json:"cursor"`
}

// The requests about journals whose data has no more to it, and those whose data stands elsewhere.
var (
	NextPage    = declare[Cursor, json.RawMessage](Kind{Name: JournalNext, scope: principal.Read, Slow: true, Relayed: true}, readCursor)
	CloseStream = declare[Cursor, Done](Kind{Name: JournalClose, scope: principal.Read, Relayed: true}, readCursor)
	LookAtRows  = declare[rowIDs, json.RawMessage](Kind{Name: JournalRows, scope: principal.Read | principal.Submit, Slow: true, Relayed: true}, readRowIDs)

	_ = declare[None, json.RawMessage](Kind{Name: JournalAnchor, scope: principal.Read, Relayed: true}, readNone)
	_ = declare[None, Opened](Kind{Name: JournalEvents, scope: principal.Read, Relayed: true}, readNone)
	_ = declare[None, Opened](Kind{Name: JournalState, scope: principal.Read, Relayed: true}, readNone)
	_ = declare[None, Opened](Kind{Name: JournalVerify, scope: principal.Read, whole: true, Relayed: true}, readNone)
	_ = declare[None, Opened](Kind{Name: JournalDiff, scope: principal.Read, whole: true, Relayed: true}, readNone)
	_ = declare[None, Opened](Kind{Name: JournalReapply, scope: principal.Admin, whole: true, Changes: true, Relayed: true}, readNone)
)

func readCursor(r *reader) Cursor { return Cursor{r.Text("cursor")} }

// rowIDs is the data of journal-rows.
type rowIDs struct {
	IDs []jobnet.Whole `json:"ids"`
}

// mostRows bounds journal-rows.
const mostRows = 1000

func readRowIDs(r *reader) rowIDs { return rowIDs{r.ids(mostRows)} }

// ReadQuery reads the data of a request about journals into a struct of cmd/internal/history.
// Fields that it does not have are ignored, as in every request, and so is data that is no object.
func ReadQuery(data json.RawMessage, into any) error {
	if len(data) == 0 || jobnet.TypeOf(data) != "object" {
		return nil
	}
	err := json.Unmarshal(data, into)
	var wrongType *json.UnmarshalTypeError
	var refusal jobnet.Refusal
	switch {
	case errors.As(err, &refusal):
		return invalid(err)
	case errors.As(err, &wrongType):
		return jobnet.Refusef("'%s' must not be %s", wrongType.Field, wrongType.Value).With(jobnet.CodeInvalid)
	case err != nil: // a time
		return jobnet.Refusal("'at', 'since' and 'until' must be times such as 2026-11-20T14:00:00Z").With(jobnet.CodeInvalid)
	}
	return nil
}

// Relayed is a master's answer to a request about journals.
type Relayed struct {
	Workers []RelayedAnswer `json:"workers"`
}

// RelayedAnswer is one worker's answer: its data, or its error.
type RelayedAnswer struct {
	Name    string          `json:"name"`
	Address string          `json:"address"` // host:port; with it a client names the worker in further requests
	Data    json.RawMessage `json:"data,omitempty"`
	Error   string          `json:"error,omitempty"`
}

// What is asked of the index that a worker keeps beside its journal, and of the rows that nobody has claimed,
// which the table alone has. A master hands these on to all its workers. Rates are numbers only.
var (
	Jobs  = declare[JobsQuery, FoundJobs](Kind{Name: "jobs", scope: principal.Read, Slow: true, Relayed: true}, readJobs)
	Rates = declare[RatesQuery, RatesFound](Kind{Name: "rates", scope: principal.Status, Slow: true, Relayed: true}, readRates)
	Rows  = declare[RowsQuery, UnclaimedRows](Kind{Name: "rows", scope: principal.Read, Slow: true, Relayed: true}, readRows)
)

// The bounds of these requests.
const (
	MostFound       = 200  // jobs or rows in one answer
	mostCodes       = 32   // of a query
	longestText     = 200  // bytes of the words that are looked for
	mostRated       = 1000 // targets of a query
	mostRatedTarget = 50   // targets with numbers of their own in one answer
)

// JobsQuery is the data of jobs: which jobs are looked for, as this worker knew each of them last. What is
// empty leaves nothing out.
type JobsQuery struct {
	Targets []string `json:"targets,omitempty"`
	Status  string   `json:"status,omitempty"` // one of JobStatuses
	Result  string   `json:"result,omitempty"` // ok or fail: of jobs that are done
	Codes   []int    `json:"codes,omitempty"`  // exit codes: of jobs that are done
	Since   int64    `json:"since,omitempty"`  // unix milliseconds: what became of it last became so then or later
	Until   int64    `json:"until,omitempty"`  // and before this

	// Text: words that the job's target, its reason and the end of its output must all have, in any order and
	// whatever their case; one with a * behind it is the beginning of a word.
	Text string `json:"text,omitempty"`

	// Failures: of each job its newest end instead, where that is a failure, whatever has become of the job since. A
	// worker that does not know it gives jobs without Failure.
	Failures bool `json:"failures,omitempty"`

	Before string `json:"before,omitempty"` // only jobs behind this key, which an answer gave
	Most   int    `json:"most,omitempty"`   // 0: up to MostFound

	Worker string `json:"worker,omitempty"` // read by a master: the name or address of the one that is asked
}

// JobStatuses are what a job may be in the index. Of a job that was released, retried or planned the row is
// nobody's any more: what it is now the table alone tells.
func JobStatuses() []string {
	return []string{"accepted", "starting", "running", "done", "ignored", "released", "retried", "planned", "conflict"}
}

func readJobs(r *reader) (q JobsQuery) {
	q = JobsQuery{
		Targets: r.anyTargets(longestTarget), Status: r.oneOf("status", JobStatuses()...), Result: r.oneOf("result", "ok", "fail"),
		Since: r.numberOr("since", 0), Until: r.numberOr("until", 0), Text: r.textOr("text", ""), Most: r.most(MostFound),
		Before: r.textOr("before", ""), Failures: r.Flag("failures"),
	}
	if r.Has("codes") {
		r.each("codes", mostCodes, func(item json.RawMessage) {
			code, whole := jobnet.Integer(item)
			if !whole || code < 0 || code > 255 {
				r.refuse("codes: %s is not an exit code; allowed: 0 to 255", jobnet.Excerpt(string(item)))
			}
			q.Codes = append(q.Codes, int(code))
		})
	}
	r.limit(len(q.Text), longestText, "the text is too long: at most %d bytes are allowed")
	if q.Failures && (q.Status != "" || q.Result != "" || q.Codes != nil || q.Text != "") {
		r.refuse("failures can't be combined with status, result, codes or text")
	}
	if _, err := ParseJobKey(q.Before); err != nil {
		r.Fail(err)
	}
	return q
}

// oneOf is one of some words, "" where none is given.
func (r *reader) oneOf(name string, words ...string) string {
	given := r.textOr(name, "")
	for _, word := range words {
		if given == word {
			return given
		}
	}
	if given != "" {
		r.refuse("%s %q is not allowed; allowed: %s", name, jobnet.Excerpt(given), strings.Join(words, ", "))
	}
	return ""
}

// JobKey is a place in the order of jobs, the newest first: when it became what it is, and by which event of its
// worker's journal. The zero value is no place.
type JobKey struct {
	At  int64 // unix microseconds
	Seq uint64
}

// Compare orders the newest first.
func (k JobKey) Compare(other JobKey) int {
	return cmp.Or(cmp.Compare(other.At, k.At), cmp.Compare(other.Seq, k.Seq))
}

// String is the key as answers give it.
func (k JobKey) String() string {
	if k == (JobKey{}) {
		return ""
	}
	return strconv.FormatInt(k.At, 10) + "." + strconv.FormatUint(k.Seq, 10)
}

// ParseJobKey reads what String has written.
func ParseJobKey(text string) (key JobKey, err error) {
	if text == "" {
		return key, nil
	}
	at, seq, _ := strings.Cut(text, ".")
	var bad error
	if key.At, err = strconv.ParseInt(at, 10, 64); err == nil {
		key.Seq, bad = strconv.ParseUint(seq, 10, 63)
	}
	if err != nil || bad != nil {
		return JobKey{}, jobnet.Refusef("before %q is not a key; allowed: the next of an earlier answer", jobnet.Excerpt(text))
	}
	return key, nil
}

// FoundJobs is the answer to jobs: the newest first.
type FoundJobs struct {
	Jobs []FoundJob `json:"jobs"`
	// Next is the key behind which to go on; "": there are no more. One question reads so many jobs only: there
	// may be more although Jobs has few, or none.
	Next string `json:"next,omitempty"`

	IndexState
}

// IndexState is how far the index is behind the journal.
type IndexState struct {
	Behind   int64  `json:"behind,omitempty"`   // milliseconds
	Building *int   `json:"building,omitempty"` // it is being made, and has so many per cent of the journal; nil: it is there
	Stopped  string `json:"stopped,omitempty"`  // why it does not go on, such as a full disk
}

// FoundJob is what the index has of a job. Times are unix milliseconds; what is not known is left out.
type FoundJob struct {
	Key      string       `json:"key"`
	Job      jobnet.Whole `json:"job"`
	Target   string       `json:"target,omitempty"` // of a row that was never claimed here nobody knows it
	Status   string       `json:"status"`
	At       int64        `json:"at"` // since when it is what it is
	Manual   bool         `json:"manual,omitempty"`
	Attempt  int          `json:"attempt,omitempty"`
	Executor string       `json:"executor,omitempty"` // fork, pool, http, fastcgi, gearman; "": a process of its own
	Claimed  int64        `json:"claimed,omitempty"`
	Started  int64        `json:"started,omitempty"`
	Ended    int64        `json:"ended,omitempty"`
	Result   string       `json:"result,omitempty"`
	Code     *int         `json:"code,omitempty"`
	Signal   string       `json:"signal,omitempty"`
	Reason   string       `json:"reason,omitempty"`
	CPU      int64        `json:"cpu,omitempty"`    // milliseconds of processors that it used
	Memory   int64        `json:"memory,omitempty"` // bytes that a process of it had at most

	// Failure is the payload of the done event, with the last line of stderr as line: where failures are asked for.
	Failure json.RawMessage `json:"failure,omitempty"`
}

// RatesQuery is the data of rates.
type RatesQuery struct {
	Span    string   `json:"span"`              // one of RateSpans
	Targets []string `json:"targets,omitempty"` // none: all
	Each    bool     `json:"each,omitempty"`    // of each of the targets by itself, too
	Worker  string   `json:"worker,omitempty"`  // as that of JobsQuery
}

// The spans of rates.
const (
	Span15m = "15m" // in steps of 15 s
	Span6h  = "6h"  // of a minute
	Span7d  = "7d"  // of an hour
)

func readRates(r *reader) RatesQuery {
	q := RatesQuery{Span: r.oneOf("span", Span15m, Span6h, Span7d), Targets: r.anyTargets(longestTarget), Each: r.Flag("each")}
	if q.Span == "" {
		r.refuse("span is missing; allowed: %s, %s and %s", Span15m, Span6h, Span7d)
	}
	r.limit(len(q.Targets), mostRated, "too many targets: at most %d are allowed")
	if q.Each {
		r.limit(len(q.Targets), mostRatedTarget, "too many targets for numbers of each: at most %d are allowed")
		if len(q.Targets) == 0 {
			r.refuse("each needs targets")
		}
	}
	return q
}

// RatesFound is the answer to rates. The newest step is not over yet.
type RatesFound struct {
	From    int64             `json:"from"` // unix seconds: when the first step begins
	Step    int64             `json:"step"` // seconds
	All     Counts            `json:"all"`
	Targets map[string]Counts `json:"targets,omitempty"`

	IndexState
}

// Counts are how many jobs were started, ended and failed, step by step. What failed has ended, too.
type Counts struct {
	Started []int64 `json:"started"`
	Ended   []int64 `json:"ended"`
	Failed  []int64 `json:"failed"`
}

// RowsQuery is the data of rows: those of one status that nobody has claimed.
type RowsQuery struct {
	Status  string        `json:"status"`            // waiting, manual or delayed
	Targets []string      `json:"targets,omitempty"` // none: all that the worker serves
	Before  *jobnet.Whole `json:"before,omitempty"`  // only rows with a lower id
	Most    int           `json:"most,omitempty"`    // 0: up to MostFound
}

func readRows(r *reader) RowsQuery {
	q := RowsQuery{Status: r.oneOf("status", "waiting", "manual", "delayed"), Targets: r.anyTargets(longestTarget), Most: r.most(MostFound)}
	if q.Status == "" {
		r.refuse("status is missing; allowed: waiting, manual and delayed")
	}
	if r.Has("before") {
		before := r.Whole("before")
		q.Before = &before
	}
	return q
}

// UnclaimedRows is the answer to rows: the highest ids first.
type UnclaimedRows struct {
	Rows []UnclaimedRow `json:"rows"`
	More bool           `json:"more,omitempty"` // there may be others behind the last one
}

// UnclaimedRow is a row that nobody has claimed. Times are unix seconds; what is not known is left out.
type UnclaimedRow struct {
	Job     jobnet.Whole `json:"job"`
	Target  string       `json:"target"`
	Status  string       `json:"status"`
	Created int64        `json:"created,omitempty"`
	RunAt   int64        `json:"run_at,omitempty"` // when it is due, of a row that is delayed

	// What the run, or the attempt, has left that ended last.
	Finished int64  `json:"finished,omitempty"`
	Result   string `json:"result,omitempty"`
	Code     *int64 `json:"code,omitempty"`
	Signal   string `json:"signal,omitempty"`
}
