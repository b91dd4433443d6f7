package conf

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// plainWord is what a mistyped command or flag looks like, and a password hardly does. Where it is
// near a known word, capitals are fine.
var (
	plainWord  = regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	lettersAny = regexp.MustCompile(`^[A-Za-z][A-Za-z.-]*$`)
)

// Unexpected describes the word of the command line with that index, which is no known flag or
// command: what sort of thing it would be, the word, and what was probably meant. The word may be a
// password, given to a flag that takes none or without a flag. So it is repeated only if it looks
// like a slip of the pen, does not stand behind the flag of a password, and does not begin as
// mysql's -pPASSWORD does; else only its place is given.
func Unexpected(what string, args []string, index int, known []string) string {
	word := args[index]
	name, isFlag := strings.CutPrefix(word, "-")
	name, twoDashes := strings.CutPrefix(name, "-")
	dashes := ""
	if isFlag {
		name, _, _ = strings.Cut(name, "=")
		dashes = "--"
	}
	near := suggestion(name, known, dashes)
	switch meant := withHyphens(name, known); {
	case BehindPassword(args, index), isFlag && !twoDashes && strings.HasPrefix(name, "p"):
	case isFlag && meant != "":
		return fmt.Sprintf("%s --%s; did you mean --%s?", what, name, meant)
	case near != "" && lettersAny.MatchString(name), plainWord.MatchString(name):
		return fmt.Sprintf("%s %s%s%s", what, dashes, name, near)
	}
	return fmt.Sprintf("%s in place %d of the command line (its text is not told, it may be a password)", what, index+1)
}

// withHyphens is the known flag that a name is but for its underscores, as keys have them; "": none.
func withHyphens(name string, known []string) string {
	at := slices.IndexFunc(known, func(flag string) bool { return hyphens(flag) == hyphens(name) })
	if at < 0 || !strings.Contains(name, "_") {
		return ""
	}
	return known[at]
}

// BehindPassword tells whether the word with that index stands behind a flag for a password.
func BehindPassword(args []string, index int) bool {
	if index == 0 || strings.HasPrefix(args[index], "-") && strings.Trim(args[index], "-") == "" {
		return false
	}
	before := strings.ToLower(args[index-1])
	return strings.HasPrefix(before, "-") && (before == "-p" || strings.Contains(before, "pass"))
}

// indexOfFlag is where in args a flag of that name stands; -1 if nowhere.
func indexOfFlag(args []string, name string) int {
	return slices.IndexFunc(args, func(arg string) bool {
		rest, isFlag := strings.CutPrefix(arg, "-")
		rest, _, _ = strings.Cut(strings.TrimPrefix(rest, "-"), "=")
		return isFlag && rest == name
	})
}
