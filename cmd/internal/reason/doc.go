// Package reason says in one sentence where a job is and what it waits for, from what workers have
// answered about it. It asks nobody, and reads no clock: times are passed in.
//
//	answers ──► view ──► one switch (view.verdict) ──► Verdict: a code and its sentence
//
// What a worker has in its hands is told before what the row says, and what keeps a row from being
// claimed before how many wait before it. The codes for why nothing is claimed are those of
// exec.Hindering, which workers answer with.
package reason
