// Package reason says in one sentence where a job is and what it waits for, from what workers have
// answered about it. It asks nobody, and reads no clock: times are passed in.
//
//	answers ──► view ──► the first rule that has something to say ──► Verdict
//
// The rules stand in rules, the most specific first: what a worker has in its hands is told before
// what the row says, and what keeps a row from being claimed before how many wait before it. Another
// reason, such as a row that is not due yet, is one more rule there.
package reason
