package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"jobd/cmd/internal/conf"
)

// warnOfShell tells of words that a shell would understand, and the command gets as they are.
func (c *launcherConfig) warnOfShell(set *conf.Set) {
	mode := c.executor.runs
	if len(c.words) == 0 || mode == "" || mode.Requests() || slices.ContainsFunc(c.words, readsLines) {
		return
	}
	key := c.prefix + "launcher"
	if operator := c.operator(); operator != "" {
		set.Warn(key, fmt.Sprintf("no shell reads it, so the command gets %s as an argument; what needs a shell is launcher = sh -c '…' with launcher_split = shell", operator))
	}
	if c.split != "shell" && hasQuotes(c.words) {
		set.Warn(key, "no shell reads it, so the quotes in it are part of what the command gets; leave them out, or set launcher_split = shell")
	}
}

// readsLines tells a program that has a shell read its arguments, here or on another host.
func readsLines(word string) bool {
	return slices.Contains([]string{
		"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "yash", "fish", "csh", "tcsh", "busybox",
		"ssh", "su", "runuser", "parallel", "watch", "script",
	}, filepath.Base(word))
}

var (
	operators = regexp.MustCompile(`^(?:&&|\|\|?|;|&)$`)
	// A redirection, alone or with its file: >, 2>&1, >>file, 2>/dev/null, &>file, <file.
	redirection  = regexp.MustCompile(`^(?:\d?(?:>>|>\||>&|>|<)|&>>?)(?:$|[\w./&$~-][^<>=]*$)`)
	substitution = regexp.MustCompile("^(?:\\$\\(|`)")
)

// operator is the first word that is an operator of shells, or begins with one; "": there is none.
// A ; ends the command of find -exec.
func (c *launcherConfig) operator() string {
	for _, word := range c.words[1:] {
		switch {
		case word == ";" && slices.ContainsFunc(c.words, takesCommand):
		case operators.MatchString(word):
			return word
		case redirection.MatchString(word):
			return word[:len(word)-len(strings.TrimLeft(word, "0123456789<>&|"))]
		case substitution.MatchString(word):
			return "$(…)"
		}
	}
	return ""
}

func takesCommand(word string) bool {
	return slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, word)
}

// hasQuotes tells whether a word has quotes around it, or several together have.
func hasQuotes(words []string) bool {
	for i, word := range words {
		for _, quote := range []string{`"`, "'"} {
			rest, begins := strings.CutPrefix(word, quote)
			if begins && (strings.HasSuffix(rest, quote) || slices.ContainsFunc(words[i+1:], func(later string) bool { return strings.HasSuffix(later, quote) })) {
				return true
			}
		}
	}
	return false
}
