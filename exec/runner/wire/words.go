package wire

import (
	"slices"

	"jobd/journal"
)

// Version 2 has grown five times. A worker says in its hello what of that it understands, in
// places that older runners pass over:
//
//   - how long a job ran stands behind the outcome, if the worker has named it where the runner's
//     hello has the instance;
//   - the class of a refusal stands behind its text, if the worker lists a job with the number 0
//     (there is none) whose boot is that word;
//   - peeks are understood by a runner that lists such a job in its hello, which it does for a
//     worker that lists the same;
//   - so are tokens, and limits, without which two sides don't talk to each other. Each message about a
//     job has behind it the token of its claim, and before that: of a start its limits, of an
//     outcome the limit that ended it. The runner's hello has the tokens and limits of its jobs
//     behind the list of them;
//   - pools are understood by a runner that lists a job whose boot is that word, which it does for a
//     worker that lists the same, as with peeks. Then a start may have behind its token the target
//     whose pool is to run it, and what that process is told of it.
const (
	wordElapsed = "elapsed"
	wordClasses = "classes"
	wordPeeks   = "peeks"
	wordTokens  = "tokens"
	wordPools   = "pools"
)

// How the words stand in the list of jobs.
var (
	classesJob = Job{Started: journal.Started{BootID: wordClasses}}
	peeksJob   = Job{Started: journal.Started{BootID: wordPeeks}}
	tokensJob  = Job{Started: journal.Started{BootID: wordTokens}}
	poolsJob   = Job{Started: journal.Started{BootID: wordPools}}
)

// WorkerHello is how a worker of this version begins.
func WorkerHello() Message {
	return Message{Kind: Hello, Version: Version, Instance: wordElapsed, Jobs: []Job{classesJob, peeksJob, tokensJob, poolsJob}}
}

// RunnerWords is what a runner of this version adds to the list of jobs in its hello, for a worker
// that sent this one.
func (m *Message) RunnerWords() (words []Job) {
	for _, word := range []Job{peeksJob, tokensJob, poolsJob} {
		if slices.Contains(m.Jobs, word) {
			words = append(words, word)
		}
	}
	return words
}

// IsWord tells that an entry in the list of jobs stands for a word.
func (j *Job) IsWord() bool { return j.ID == ID{} }

// understandsTokens tells whether the side that sent this hello understands tokens and limits.
func (m *Message) understandsTokens() bool { return slices.Contains(m.Jobs, tokensJob) }

// UnderstandsPools tells whether the side that sent this hello understands pools.
func (m *Message) UnderstandsPools() bool { return slices.Contains(m.Jobs, poolsJob) }
