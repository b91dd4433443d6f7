package main

import (
	"fmt"
	"time"

	"jobd/cmd/internal/conf"
)

// lengthFlag is a flag.Value for a length of time, which is written as in the configuration:
// seconds, or with units. It must be from least to most; most is 0 where nothing is too long.
type lengthFlag struct {
	length      *time.Duration
	least, most time.Duration
}

// String implements flag.Value.
func (f lengthFlag) String() string { return "" }

// Set implements flag.Value.
func (f lengthFlag) Set(text string) error {
	d, err := conf.ParseDuration(text)
	if err == nil && d >= f.least && (f.most == 0 || d <= f.most) {
		*f.length = d
		return nil
	}
	limits := fmt.Sprintf("of at least %v", f.least)
	if f.most > 0 {
		limits = fmt.Sprintf("from %v to %v", f.least, f.most)
	}
	return fmt.Errorf("%q is not allowed; allowed is a number of seconds, or a duration such as 500ms, 30s or 2m, %s", text, limits)
}
