package exec

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"jobd/exec/program"
)

// Launcher is the command that runs a job.
type Launcher struct {
	Mode    Mode     // how it runs jobs; "": in a process of its own for each
	Words   []string // the command; {id} in them stands for the job's id
	Dir     string   // where it runs; "": where the worker does
	Env     []string // all of its environment, "NAME=value"
	Keep    Keep     // of modes that keep processes
	Service Service  // of modes that are requests
}

// placeholder stands for the job's id in the launcher's words.
const placeholder = "{id}"

// spec is what to start for one job, told more by its environment. Only ids, which are integers, are
// put into the words, and no shell reads them (pitfall 38).
func (l Launcher) spec(id int64, attempt int, more []string) (Spec, error) {
	argv := make([]string, len(l.Words))
	for i, word := range l.Words {
		argv[i] = strings.ReplaceAll(word, placeholder, strconv.FormatInt(id, 10))
	}
	env := append(slices.Clip(l.Env), more...)
	path, err := l.find(argv[0])
	if err != nil {
		return Spec{}, err
	}
	return Spec{Job: id, Attempt: attempt, Argv: append([]string{path}, argv[1:]...), Dir: l.Dir, Env: env}, nil
}

// find resolves a command without a slash in the PATH that the job will see.
func (l Launcher) find(command string) (string, error) {
	if strings.Contains(command, "/") && !l.assigns(command) {
		return command, nil
	}
	for _, folder := range filepath.SplitList(l.variable("PATH")) {
		path := filepath.Join(folder, command)
		if info, err := os.Stat(l.at(path)); err == nil && info.Mode().IsRegular() && program.Executable(l.at(path)) {
			return path, nil
		}
	}
	return "", &NotStartedError{Why: notFound(command)}
}

func (l Launcher) variable(name string) string {
	for _, variable := range l.Env {
		if value, ok := strings.CutPrefix(variable, name+"="); ok {
			return value
		}
	}
	return ""
}
