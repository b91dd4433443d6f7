// Package version says which version of the three programs this is, and of what it was built.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// Version is what --version prints and what a worker writes into its journal.
const Version = "1.0.0"

// unknown stands where a build was told of no commit: one of a folder that is no checkout.
const unknown = "unknown"

// The linker sets both (-X jobd/cmd/internal/version.commit=…), as the Makefile tells it.
var commit, date string

// Build is of what a program was built.
type Build struct {
	Version  string
	Commit   string // its whole name, with -modified behind it where files were changed since
	Date     string // of the commit, as RFC 3339 has it; equal sources make equal programs
	compiler string // go1.26.0
	platform string // linux/amd64
}

// Of is the build of this program. What the linker was not told is taken from what go build noted of
// the checkout, if it did.
func Of() Build {
	build := Build{Version: Version, Commit: commit, Date: date, compiler: runtime.Version(), platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok && commit == "" {
		build.Commit, build.Date = noted(info.Settings)
	}
	build.Commit, build.Date = orUnknown(build.Commit), orUnknown(build.Date)
	return build
}

// noted is the commit and its date among the settings of a build.
func noted(settings []debug.BuildSetting) (commit, date string) {
	modified := ""
	for _, setting := range settings {
		switch setting.Key {
		case "vcs.revision":
			commit = setting.Value
		case "vcs.time":
			date = setting.Value
		case "vcs.modified":
			if setting.Value == "true" {
				modified = "-modified"
			}
		}
	}
	if commit != "" {
		commit += modified
	}
	return commit, date
}

func orUnknown(text string) string {
	if text == "" {
		return unknown
	}
	return text
}

// Text is what --version --verbose prints: a line a fact, the name first.
func (b Build) Text(program string) string {
	return fmt.Sprintf("%s %s\ncommit: %s\ndate: %s\nbuilt with: %s for %s", program, b.Version, b.Commit, b.Date, b.compiler, b.platform)
}
