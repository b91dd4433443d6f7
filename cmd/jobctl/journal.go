package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"jobd/cmd/internal/operator"
	"jobd/journal"
	"jobd/journal/replay"
)

// journal is the commands that read journals: from a worker's folder, through the worker, or
// through a master from all its workers.
func (p *program) journal() *cmd {
	c := command("journal COMMAND [--journal DIR]", "read the journal of a worker, from its folder or through it; with --master those of all workers", nil)
	c.Subcommands = []*cmd{
		p.journalLog(), p.journalShow(), p.journalState(), p.journalConflicts(), p.journalStats(),
		p.journalExport(), p.journalVerify(), p.journalAnchor(), p.journalDiff(), p.journalReapply(),
	}
	return c
}

// journalCommand makes a command that gets the journals which the flags name.
func (p *program) journalCommand(name, arguments, help string, exec func(ctx context.Context, j *operator.Journals, args []string) error) *cmd {
	var dirs []string
	c := command("journal "+name+arguments+" [--journal DIR]", help, func(ctx context.Context, args []string) error {
		return p.read(ctx, dirs, func(ctx context.Context, j *operator.Journals) error { return exec(ctx, j, args) })
	})
	c.FlagSet.Func("journal", "the folder of the journal, more than once for several; without it, the worker or master at --host and --port is asked", folders(&dirs))
	return c
}

// checkFirst has a command's words and flags checked before a journal is opened or anybody asked.
func checkFirst(c *cmd, check func(args []string) error) {
	run := c.Exec
	c.Exec = func(ctx context.Context, args []string) error {
		if err := check(args); err != nil {
			return err
		}
		return run(ctx, args)
	}
}

// folders reads the value of a flag for folders, one each time that it is given.
func folders(dirs *[]string) func(text string) error {
	return func(text string) error {
		if text == "" {
			return errors.New("it must not be empty")
		}
		*dirs = append(*dirs, text)
		return nil
	}
}

// read opens what the flags name (folders, else a worker or a master), has it read, and tells what failed.
func (p *program) read(ctx context.Context, dirs []string, use func(ctx context.Context, j *operator.Journals) error) error {
	if len(dirs) > 0 {
		if p.giveWay != nil {
			p.giveWay()
		}
		return p.readFolders(ctx, dirs, use)
	}
	d := p.daemon()
	j, err := operator.FindJournals(ctx, d, p.note)
	if err != nil {
		return err
	}
	return j.Err(ctx, use(ctx, j))
}

// readFolders has folders read, whatever daemon is configured.
func (p *program) readFolders(ctx context.Context, dirs []string, use func(ctx context.Context, j *operator.Journals) error) error {
	j := &operator.Journals{Note: p.note}
	var folders []operator.Folder
	for i, dir := range dirs {
		if slices.ContainsFunc(dirs[:i], func(other string) bool { return filepath.Clean(other) == filepath.Clean(dir) }) {
			return wrongUsage("--journal %s is given twice", dir)
		}
		if info, err := os.Stat(dir); err == nil && !info.IsDir() {
			return fmt.Errorf("open journal %s: this is not a folder", dir)
		}
		r, err := replay.Open(dir)
		if err != nil {
			return err
		}
		own, told := ownerOf(ctx, r, dir)
		folders = append(folders, operator.Folder{Reader: r, Dir: dir, Own: own, Master: told && own == journal.MasterName})
	}
	if len(folders) > 1 {
		p.tellApart(folders)
	}
	for _, f := range folders {
		j.Sources = append(j.Sources, f)
	}
	return j.Err(ctx, use(ctx, j))
}

// ownerOf is the name of the worker whose journal a folder holds, or the master's. One that does not tell, or is damaged, which
// its reader will notice, has the folder's.
func ownerOf(ctx context.Context, r *replay.Reader, dir string) (name string, told bool) {
	if name, err := r.Name(ctx); err == nil && name != "" {
		return name, true
	}
	if absolute, err := filepath.Abs(dir); err == nil {
		dir = absolute
	}
	return filepath.Base(dir), false
}

// tellApart gives folders their names. Where two journals are of one name, as an archive and what it was cut off from are, or
// those of two hosts whose workers were named alike, each bears its folder too, and that is said.
func (p *program) tellApart(folders []operator.Folder) {
	count := make(map[string]int)
	for _, f := range folders {
		count[f.Own]++
	}
	for i := range folders {
		f := &folders[i]
		if f.Name = f.Own; count[f.Own] > 1 {
			f.Name = fmt.Sprintf("%s (%s)", f.Own, f.Dir)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(count)) {
		if n := count[name]; n > 1 {
			p.note(fmt.Errorf("%d journals are of worker '%s': they are told apart by their folders", n, clean(name)))
		}
	}
}
