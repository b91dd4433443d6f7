package main

import (
	"fmt"
	"regexp"
	"strings"
)

// wrongValue is how package flag words a value that a flag does not take.
var wrongValue = regexp.MustCompile(`invalid (boolean )?value ("(?:[^"\\]|\\.)*") for (?:flag )?-(\S+): (.*)$`)

// wrongFlag words the error of a flag's value as all of jobd's errors are: the flag, the value, what is allowed.
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
