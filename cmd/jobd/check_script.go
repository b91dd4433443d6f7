package main

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	jobexec "jobd/exec"
)

// missingScript is which word of a command names its script, mostly, and is the name of no file; 0:
// none. Nothing else would tell of it before jobs come. It knows no program's options, and so stops
// where a word is no script any more, but an argument of one.
func missingScript(l jobexec.Launcher) int {
	if l.Mode.Requests() || slices.ContainsFunc(l.Words, isElsewhere) {
		return 0
	}
	for i, word := range l.Words {
		if i == 0 {
			continue
		}
		if beginsArguments(word) {
			return 0
		}
		info, err := os.Stat(inFolder(l.Dir, word))
		isFolder := err == nil && info.IsDir()
		switch {
		case isFolder && filepath.IsAbs(word): // in which the rest is looked for, maybe
			return 0
		case !namesScript(l.Words[i-1], word):
			continue
		case errors.Is(err, fs.ErrNotExist):
			return i
		case err != nil, isFolder, isScript(word):
			return 0
		}
	}
	return 0
}

// lacksScript tells whether a FastCGI server of this host is to run a file that is not there.
func lacksScript(s jobexec.Service) bool {
	if s.Mode != jobexec.ModeFastCGI || !filepath.IsAbs(s.Address) {
		return false
	}
	_, err := os.Stat(s.Script)
	return errors.Is(err, fs.ErrNotExist)
}

// beginsArguments tells a word behind which there are the arguments of a job, or names of another
// folder.
func beginsArguments(word string) bool {
	return strings.Contains(word, "{id}") || strings.HasPrefix(word, "--") && strings.Contains(word, "=/")
}

// inFolder is where a word of a command that runs in a folder leads.
func inFolder(dir, word string) string {
	if filepath.IsAbs(word) {
		return word
	}
	return filepath.Join(dir, word)
}

// fileName matches what may be the name of a file, and is no option, address, list, pattern or code.
var fileName = regexp.MustCompile(`^[\pL\d._/~][\pL\d._/~+@-]*$`)

// namesScript tells whether a word is hardly anything else than the name of a script, behind the one
// before: an option may have a file of its own, and what has no folder may be found by the PATH.
func namesScript(before, word string) bool {
	interpreted := interpreter.MatchString(filepath.Base(before))
	switch {
	case !fileName.MatchString(word), strings.HasPrefix(before, "-") && before != "--" && !strings.Contains(before, "="):
		return false
	case filepath.IsAbs(word):
		return interpreted || isScript(word)
	}
	return isScript(word) && (interpreted || strings.Contains(word, "/"))
}

// interpreter matches programs whose first argument is a script, if it is no option.
var interpreter = regexp.MustCompile(`^(?:php|python|ruby|perl|node|nodejs|deno|bun|sh|bash|dash|zsh|ksh|lua)[0-9.]*$`)

// scriptEndings are those of files that an interpreter is given.
var scriptEndings = []string{
	".php", ".phar", ".py", ".rb", ".pl", ".js", ".mjs", ".cjs", ".ts", ".sh", ".bash", ".lua", ".jar", ".exs",
}

func isScript(word string) bool { return slices.Contains(scriptEndings, filepath.Ext(word)) }

// isElsewhere tells a program whose arguments name files of another host, or of another root.
func isElsewhere(word string) bool {
	return slices.Contains([]string{
		"ssh", "docker", "docker-compose", "podman", "nerdctl", "kubectl", "lxc", "incus", "machinectl",
		"flatpak", "chroot", "nsenter", "unshare", "bwrap", "proot", "systemd-nspawn",
	}, filepath.Base(word))
}

// lacks says which file is missing without which each job fails, mostly; "" where none is known of.
func lacks(l jobexec.Launcher) string {
	if i := missingScript(l); i > 0 {
		return "there is no file " + inFolder(l.Dir, l.Words[i]) + ", which its command names"
	}
	if lacksScript(l.Service) {
		return "there is no file " + l.Service.Script + " on this host, which the FastCGI server is to run; it must be there where that server sees it"
	}
	return ""
}

// missingScripts warns of what the common launcher lacks, and those of targets.
func (c *config) missingScripts() (warnings []string) {
	look := func(what string, launcher jobexec.Launcher) {
		if missing := lacks(launcher); missing != "" {
			warnings = append(warnings, what+": "+missing)
		}
	}
	look("launcher", c.launcher.launcher())
	for _, name := range slices.Sorted(maps.Keys(c.sections)) {
		if t := c.sections[name]; t.launcher.command != "" && t.terms.Launcher != nil {
			look("launcher of "+t.section.String(), *t.terms.Launcher)
		}
	}
	return warnings
}
