package runner

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	jobexec "jobd/exec"
	"jobd/exec/runner/proc"
	"jobd/exec/runner/wire"
)

// Remote starts jobs through a runner process, which outlives the worker. Its methods may be called
// by many goroutines.
type Remote struct {
	connector connector
	recalled  map[wire.ID]*process // the jobs that the runner had when the worker started
	meter     proc.Meter
}

// Open connects to the runner that a former worker left, or starts one.
func Open(c Config) (*Remote, error) {
	bootID, err := proc.BootID()
	if err != nil {
		return nil, err
	}
	if err := proc.KeepDescriptors(); err != nil {
		return nil, err
	}
	r := &Remote{connector: connector{config: c, bootID: bootID, closing: make(chan struct{})}}
	r.connector.pools.onReady = c.OnReady
	l, err := r.connector.get()
	if err != nil {
		return nil, err
	}
	r.recalled = l.recalled
	return r, nil
}

// Close leaves the runner, which goes on with its jobs. It may be called more than once.
func (r *Remote) Close() error {
	r.connector.close()
	return nil
}

// Start implements jobexec.Runner.
func (r *Remote) Start(spec jobexec.Spec) (jobexec.Process, error) {
	l, err := r.connector.get()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w: %w", spec.Argv[0], jobexec.ErrRunnerChanged, err)
	}
	if l.instance != spec.Runner {
		return nil, fmt.Errorf("start %s: %w", spec.Argv[0], jobexec.ErrRunnerChanged)
	}
	return l.start(&spec)
}

// Instance implements jobexec.Keeper. It starts a runner where there is none.
func (r *Remote) Instance() (string, error) {
	l, err := r.connector.get()
	if err != nil {
		return "", err
	}
	return l.instance, nil
}

// Ended implements jobexec.Keeper.
func (r *Remote) Ended(instance string) bool {
	listed, err := os.ReadFile(filepath.Join(r.connector.config.Dir, wire.EndedFile))
	return err == nil && slices.Contains(strings.Fields(string(listed)), instance)
}
