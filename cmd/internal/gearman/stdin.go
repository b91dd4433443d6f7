package gearman

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
)

// A launcher of a function reads the workload from its stdin. The worker puts it into a file, which a shell opens and
// removes before it becomes the launcher. What if the worker or the runner is killed in between? The file stays, and
// the next start of the job writes it anew; a start of the worker removes those that are old, and again when all are
// that were there.

// workloadFolder is where the files are, below the journal's folder.
const workloadFolder = "gearman.workloads"

// oldWorkload is the age from which on no start is under way any more that would open a file.
const oldWorkload = time.Minute

// fed is a runner whose jobs have workloads.
type fed struct {
	jobexec.Runner
	front  *Front
	folder string
}

// Feed makes a runner that gives launchers the workloads of their rows.
func Feed(f *Front, runner jobexec.Runner, journalDir string) (jobexec.Runner, error) {
	x := fed{runner, f, filepath.Join(journalDir, workloadFolder)}
	folder, err := filepath.Abs(x.folder)
	if err != nil || f.intake == nil {
		return runner, err
	}
	x.folder = folder
	if err := x.sweep(); err != nil {
		return nil, err
	}
	time.AfterFunc(oldWorkload, func() { _ = x.sweep() }) // what the start before has left is old then
	return x, nil
}

// sweep removes old files. One that can't be removed is left to the next start.
func (x fed) sweep() error {
	files, err := os.ReadDir(x.folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, file := range files {
		if info, err := file.Info(); err == nil && time.Since(info.ModTime()) >= oldWorkload {
			_ = os.Remove(filepath.Join(x.folder, file.Name()))
		}
	}
	return err
}

// Start implements jobexec.Runner.
func (x fed) Start(spec jobexec.Spec) (jobexec.Process, error) {
	if spec.Mode.Executor() != "" {
		return x.Runner.Start(spec)
	}
	program := spec.Argv[0]
	if !filepath.IsAbs(program) {
		program = filepath.Join(spec.Dir, program)
	}
	if !proc.Executable(program) { // the runner says what is wrong with it
		return x.Runner.Start(spec)
	}
	file, err := x.write(&spec)
	if err != nil {
		return nil, &jobexec.NotStartedError{Why: "its workload can't be its stdin: " + err.Error(), Short: true}
	}
	if file != "" {
		spec.Argv = append([]string{"/bin/sh", "-c", `exec <"$0" && rm -f -- "$0" && exec "$@"`, file}, spec.Argv...)
	}
	process, err := x.Runner.Start(spec)
	if err != nil && file != "" {
		_ = os.Remove(file)
	}
	return process, err
}

// write puts the workload of a job into a file; "": its row has none.
func (x fed) write(spec *jobexec.Spec) (file string, err error) {
	w, known := x.front.intake.takeWorkload(spec.Job)
	if !known {
		row, found, err := x.front.workload(spec.Job, longWorkload)
		if err != nil || !found || row.Null {
			return "", err
		}
		if row.Size > longWorkload {
			drop, some := x.front.server.Reserve(row.Size)
			if !some {
				return "", errors.New("not enough memory for it now")
			}
			defer drop()
			if row, _, err = x.front.workload(spec.Job, x.front.MaxPacket); err != nil {
				return "", err
			}
		}
		w.bytes = row.Bytes
	}
	if spec.Account != nil {
		return "", errors.New("the account of launcher.user can't read it; have Gearman workers run the function")
	}
	if err := os.MkdirAll(x.folder, 0o700); err != nil {
		return "", err
	}
	file = filepath.Join(x.folder, fmt.Sprintf("%d.%d", spec.Job, spec.Attempt))
	if err := os.WriteFile(file, w.bytes, 0o600); err != nil {
		_ = os.Remove(file)
		return "", err
	}
	return file, nil
}
