package main

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
)

// wrongValue is how package flag words a value that a flag does not take.
var wrongValue = regexp.MustCompile(`invalid (boolean )?value ("(?:[^"\\]|\\.)*") for (?:flag )?-(\S+): (.*)$`)

// withhold takes out of an error of exit code 2 the words of the command line that may be
// passwords: what stands behind the flag of one, what has a = in it, and what begins as mysql's
// -pPASSWORD does. Errors have words in quotes.
func withhold(err error, args []string) error {
	if err == nil || exit.Code(err) != exit.Usage {
		return err
	}
	text := err.Error()
	for i, arg := range args {
		isFlag := strings.HasPrefix(arg, "-")
		if conf.BehindPassword(args, i) || !isFlag && strings.Contains(arg, "=") || strings.HasPrefix(arg, "-p") {
			text = strings.ReplaceAll(text, strconv.Quote(arg), fmt.Sprintf("a word in place %d that is not told", i+1))
		}
	}
	if text == err.Error() {
		return err
	}
	return exit.With(exit.Usage, errors.New(text))
}

// wrongFlag words the error of a flag's value as all of jobd's errors are: the flag, the value,
// what is allowed.
func wrongFlag(err error) error {
	if err == nil {
		return nil
	}
	found := wrongValue.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	boolean, value, name, reason := found[1] != "", found[2], found[3], found[4]
	switch {
	case boolean:
		reason = value + " is not allowed; allowed are true and false"
	case reason == "parse error" || strings.HasPrefix(reason, "value out of range"):
		reason = value + " is not allowed; allowed is a whole number"
	}
	dashes := "--"
	if len(name) == 1 {
		dashes = "-"
	}
	return fmt.Errorf("%s%s: %s", dashes, name, reason)
}
