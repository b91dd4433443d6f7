package wire

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"jobd/exec/runner/proc"
	"jobd/journal"
)

// The bytes of a hello are those of commit 853d0e5 and before, so that a running upgrade from it, and the
// way back, find each other: a word is sent as an entry in the list of jobs, with the id 0, which no
// job has, and the word in its boot id. "elapsed" stands where the runner's hello has the instance. All but the last word say
// what both sides understand; a runner answers with those that the worker has said.
//
// "build" names the program's file. A runner of another build is used until it has no jobs, and left
// then. Behind this word a runner names its process.
const (
	wordElapsed = "elapsed"
	wordClasses = "classes"
	wordPeeks   = "peeks"
	wordTokens  = "tokens"
	wordPools   = "pools"
	wordBuild   = "build "
	wordPID     = "pid "

	wordUsage = "usage" // what jobs used stands behind the token of their ends

	// A runner says it that may start processes of other accounts.
	wordAccounts = "accounts"
)

func word(text string) Job { return Job{Started: journal.Started{BootID: text}} }

// build names the file that this process executes.
var build = wordBuild + fileOf("/proc/self/exe")

// fileOf names a file, whoever touches it: an upgrade puts another file in its place, and no file gets
// the number of one that a process executes.
func fileOf(path string) string {
	var file unix.Stat_t
	_ = unix.Stat(path, &file) // without it all are alike
	return fmt.Sprintf("%d.%d", file.Dev, file.Ino)
}

// WorkerHello is how a worker of this version begins.
func WorkerHello() Message {
	return Message{
		Kind: Hello, Version: Version, Instance: wordElapsed,
		Jobs: []Job{word(wordClasses), word(wordPeeks), word(wordTokens), word(wordPools), word(wordUsage), word(wordAccounts), word(build)},
	}
}

// RunnerWords is what a runner of this version adds to the list of jobs in its hello, for a worker
// that sent this one.
func (m *Message) RunnerWords() (words []Job) {
	for _, text := range []string{wordPeeks, wordTokens, wordPools, wordAccounts} {
		if m.says(text) && (text != wordAccounts || len(proc.MissingCapabilities()) == 0) {
			words = append(words, word(text))
		}
	}
	if slices.ContainsFunc(m.Jobs, func(j Job) bool { return j.IsWord() && strings.HasPrefix(j.Started.BootID, wordBuild) }) {
		words = append(words, word(build), word(fmt.Sprint(wordPID, os.Getpid())))
	}
	return words
}

// IsWord tells that an entry in the list of jobs stands for a word.
func (j *Job) IsWord() bool { return j.ID == ID{} }

func (m *Message) says(text string) bool { return slices.Contains(m.Jobs, word(text)) }

// PID is the process of the runner that sent this hello; 0 where it does not say.
func (m *Message) PID() (pid int) {
	for _, j := range m.Jobs {
		if text, ok := strings.CutPrefix(j.Started.BootID, wordPID); ok && j.IsWord() {
			pid, _ = strconv.Atoi(text)
		}
	}
	return pid
}

// TakesAccounts tells whether the runner that sent this hello may start processes of other accounts.
func (m *Message) TakesAccounts() bool { return m.says(wordAccounts) }

// TakesUsage tells whether the worker that sent this hello understands what jobs used.
func (m *Message) TakesUsage() bool { return m.says(wordUsage) }

// IsOfThisBuild tells whether the side that sent this hello executes the same file.
func (m *Message) IsOfThisBuild() bool { return m.says(build) }
