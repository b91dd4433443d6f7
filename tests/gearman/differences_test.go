package gearman

// difference is a step that jobd answers otherwise than gearmand, and why. Those of a scenario come in its order.
type difference struct {
	step    string
	answers []string // jobd's
	why     string
	instead string // the step in its place, where gearmand's can't be played
}

const (
	lf       = "a line that ends with LF is whole: gearmand cuts its last byte off"
	whole    = "a packet with too few or too long arguments is an error, and the link stays: gearmand closes it, or never answers it again"
	named    = "a function has a name, without NULs: gearmand takes none for one, and counts a name that has a NUL apart"
	blanks   = "words are parted by blanks"
	kept     = "a worker keeps the job that it has, whatever it can do from then on: gearmand gives the job away, too"
	noLonger = "a job that was cancelled is over: gearmand counts it, answers for it, and lets it run to its end"
	crash    = "gearmand dies of it, and everything that it had in memory is lost"
	pages    = "a web page must not talk to the port: gearmand takes each line of its request for a command"
	reducers = "there are no reducers: gearmand tells workers their names"
	noNUL    = "a WORK_FAIL has the handle alone: gearmand makes an exception a WORK_FAIL with a NUL behind that"
	whenDue  = "a job with a time wakes workers when it is due: gearmand wakes them when it is submitted, and never again"
	notLost  = "a function with jobs is not dropped: gearmand forgets them"
	longest  = "a unique id of 64 bytes is whole: gearmand gives its last byte to the workload"
	toEnd    = "who asks for more numbers is answered: gearmand closes the link"
	leaves   = "a job that nobody waits for any more is no job: gearmand counts it until a worker would get it"
	lines    = "a name is of 512 bytes at most, and breaks no line of a list: gearmand takes any"
	unit     = "CAN_DO_TIMEOUT counts milliseconds, as the protocol says: gearmand counts seconds"
)

func invalid(name string) []string { return []string{name + " < ERROR INVALID_PACKET"} }

// differences are all there are, by scenario.
var differences = map[string][]difference{
	"abilities_taken": {
		{step: `admin > "status\n"`, answers: []string{`admin < "f\t1\t1\t0"`, `admin < "."`}, why: kept},
		{step: `worker > WORK_DATA {job1} x`, answers: []string{`client < WORK_DATA {job1} x`}, why: kept},
		{step: `worker > WORK_COMPLETE {job1} x`, answers: []string{`client < WORK_COMPLETE {job1} x`}, why: kept},
		{step: `worker > GRAB_JOB`, answers: []string{`worker < NO_JOB`}, why: kept},
	},
	"admin_cancel": {
		{step: `admin > "status\n"`, answers: []string{`admin < "f\t1\t0\t0"`, `admin < "."`}, why: noLonger},
		{step: `client > GET_STATUS {job1}`, answers: []string{`client < STATUS_RES {job1} 0 0 0 0`}, why: noLonger},
		{step: `admin > "cancel job {job1}\r\n"`, answers: []string{`admin < "ERR UNKNOWN_JOB\r"`}, why: noLonger},
	},
	"admin_cancel_foreground": {
		{step: `admin > "status\n"`, answers: []string{`admin < "f\t0\t0\t0"`, `admin < "."`}, why: noLonger},
	},
	"admin_cancel_lf": {
		{step: `admin > "status\n"`, answers: []string{`admin < "f\t0\t0\t0"`, `admin < "."`}, why: noLonger},
		{step: `client > GET_STATUS {job1}`, answers: []string{`client < STATUS_RES {job1} 0 0 0 0`}, why: noLonger},
	},
	"admin_cancel_running": {
		{
			step:    `client > until "GET_STATUS {job1}" "STATUS_RES {job1} 1 1 0 0"`,
			instead: `client > until "GET_STATUS {job1}" "STATUS_RES {job1} 0 0 0 0"`,
			answers: []string{`client < STATUS_RES {job1} 0 0 0 0`}, why: noLonger,
		},
		{step: `worker > WORK_DATA {job1} more`, answers: []string{`worker < ERROR JOB_NOT_FOUND`}, why: noLonger},
		{step: `worker > WORK_COMPLETE {job1} ""`, answers: []string{`worker < ERROR JOB_NOT_FOUND`}, why: noLonger},
	},
	"admin_drop_queued": {
		{step: `admin > "drop function j\r\n"`, answers: []string{`admin < "ERR there are jobs of it, which would be lost\r"`}, why: notLost},
		{step: `admin > "status\n"`, answers: []string{`admin < "j\t1\t0\t0"`, `admin < "."`}, why: notLost},
		{step: `worker > GRAB_JOB`, answers: []string{`worker < JOB_ASSIGN {job1} j x`}, why: notLost},
	},
	"admin_functions_lf": {
		{step: `admin > "status\n"`, answers: []string{`admin < "make\t0\t0\t0"`, `admin < "."`}, why: lf},
		{step: `admin > "drop function make\n"`, answers: []string{`admin < "OK\r"`}, why: lf},
		{step: `admin > "status\n"`, answers: []string{`admin < "."`}, why: lf},
	},
	"admin_maxqueue_many": {
		{step: `admin > "maxqueue f 10 20 30 40\r\n"`, answers: []string{`admin < "OK\r"`}, why: toEnd},
	},
	"admin_spaces": {
		{step: `admin > " status\n"`, answers: []string{`admin < "."`}, why: blanks},
		{step: `admin > "show jobs \n"`, answers: []string{`admin < "."`}, why: blanks},
	},
	"arguments": {
		{step: `a > SUBMIT_JOB f`, answers: invalid("a"), why: whole},
		{step: `b > SUBMIT_JOB f u`, answers: invalid("b"), why: whole},
		{step: `c > SUBMIT_JOB`, answers: invalid("c"), why: whole},
		{step: `d > SUBMIT_JOB "" "" x`, answers: []string{`d < ERROR INVALID_FUNCTION_NAME`}, why: named},
		{step: `e > SUBMIT_JOB_EPOCH f u 1`, answers: invalid("e"), why: whole},
		{step: `h > CAN_DO`, answers: []string{`h < ERROR INVALID_FUNCTION_NAME`}, why: named},
		{step: `i > CAN_DO f more`, answers: []string{`i < ERROR INVALID_FUNCTION_NAME`}, why: named},
		{step: `j > CAN_DO_TIMEOUT f`, answers: invalid("j"), why: whole},
		{step: `l > WORK_COMPLETE`, answers: invalid("l"), why: whole},
		{step: `m > WORK_COMPLETE H:x:1`, answers: invalid("m"), why: whole},
		{step: `n > WORK_STATUS H:x:1 1`, answers: invalid("n"), why: whole},
		{step: `admin > "status\n"`, answers: []string{`admin < "f\t0\t0\t1"`, `admin < "."`}, why: named},
	},
	"client_gone": {{
		step:    `admin > until "show jobs\n" "{job1}\t0\t1\t0"`,
		instead: `admin > until "status\n" "f\t0\t0\t0"`, answers: []string{`admin < "f\t0\t0\t0"`, `admin < "."`}, why: leaves,
	}},
	"delayed": {
		{step: `worker > PRE_SLEEP`, answers: []string{`worker < NOOP`}, why: whenDue},
		{step: `client > SUBMIT_JOB_EPOCH f "" soon x`, answers: []string{`client < ERROR INVALID_ARGUMENT`}, why: "a time is a number: gearmand takes any word for 0"},
		{step: `worker > GRAB_JOB`, answers: []string{`worker < NO_JOB`}, why: "the same"},
		{step: `worker > WORK_COMPLETE {job5} ""`, answers: []string{`worker < ERROR JOB_NOT_FOUND`}, why: "the same"},
	},
	"exceptions": {
		{step: `worker > WORK_EXCEPTION {job1} "for the plain one"`, answers: []string{`plain < WORK_FAIL {job1}`}, why: noNUL},
		{step: `worker > WORK_EXCEPTION {job4} "alone"`, answers: []string{`plain < WORK_FAIL {job4}`}, why: noNUL},
	},
	"magic": {
		{step: `j > "GET / HTTP/1.1\r\n"`, answers: []string{`j < closed`}, why: pages},
		{step: `k > "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n\r\nstatus\r\n"`, answers: []string{`k < closed`}, why: pages},
	},
	"names": {
		{step: `client > SUBMIT_JOB_BG "n"*513 "" x`, answers: []string{`client < ERROR INVALID_FUNCTION_NAME`}, why: lines},
		{step: `client > SUBMIT_JOB_BG "tab\there" "" x`, answers: []string{`client < ERROR INVALID_FUNCTION_NAME`}, why: lines},
		{step: `third > CAN_DO "tab\there"`, answers: []string{`third < ERROR INVALID_FUNCTION_NAME`}, why: lines},
	},
	"reducers": {
		{step: `client > SUBMIT_REDUCE_JOB f "" r "" reduced`, answers: []string{`client < ERROR INVALID_COMMAND`}, why: reducers},
		{step: `client > SUBMIT_REDUCE_JOB_BACKGROUND f "" r "" reduced`, answers: []string{`client < ERROR INVALID_COMMAND`}, why: reducers},
		{step: `worker > GRAB_JOB_ALL`, answers: []string{`worker < NO_JOB`}, why: reducers},
		{step: `worker > WORK_COMPLETE {job2} ""`, answers: []string{`worker < ERROR JOB_NOT_FOUND`}, why: reducers},
		{step: `worker > GRAB_JOB_ALL`, answers: []string{`worker < NO_JOB`}, why: reducers},
		{step: `worker > WORK_COMPLETE {job3} ""`, answers: []string{`worker < ERROR JOB_NOT_FOUND`}, why: reducers},
	},
	"type_unknown": {
		{step: `i > 4294967295 x`, answers: []string{`i < closed`}, why: crash},
	},
	"unique_long": {
		{step: `b > SUBMIT_JOB f "u"*10000 b`, answers: []string{`b < ERROR ARGUMENT_TOO_LARGE`}, why: whole},
		{step: `c > GET_STATUS_UNIQUE "u"*100`, answers: []string{`c < STATUS_RES_UNIQUE "u"*100 0 0 0 0 0`}, why: whole},
	},
	"timeout_ms": {
		{
			step: `admin > "status\n"`, instead: `admin > until "status\n" "f\t1\t0\t1"`,
			answers: []string{`admin < "f\t1\t0\t1"`, `admin < "."`}, why: unit,
		},
		{step: `worker > WORK_COMPLETE {job1} late`, answers: []string{`worker < ERROR JOB_NOT_FOUND`}, why: unit},
		{step: `worker > GRAB_JOB`, answers: []string{`worker < JOB_ASSIGN {job1} f a`}, why: unit},
		{step: `worker > WORK_COMPLETE {job1} "in time"`, answers: []string{`client < WORK_COMPLETE {job1} "in time"`}, why: unit},
	},
	"unique_longest": {
		{step: `second > GRAB_JOB_UNIQ`, answers: []string{`second < JOB_ASSIGN_UNIQ {job2} f "u"*64 b`}, why: longest},
	},
}
