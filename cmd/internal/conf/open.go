package conf

import (
	"errors"
	"fmt"
	"os"
)

// errNoFile is about a path at which there is something else than a file.
var errNoFile = errors.New("it is no regular file; allowed is one, a link to one, or /dev/null for none, and nothing else: no pipe, no device, no terminal")

// pathFlag is the flag.Value of --config, from which package ff takes what it opens.
type pathFlag struct{ path *string }

// Set implements flag.Value.
func (f pathFlag) Set(path string) error {
	*f.path = path
	return nil
}

// String gives the path that package ff opens. Reading a pipe or a device may never end, so ff gets
// an empty file in its place, and checkMissing notes the error. A folder fails when it is read.
func (f pathFlag) String() string {
	if f.path == nil {
		return ""
	}
	if !isFile(*f.path) {
		return os.DevNull
	}
	return *f.path
}

// isFile tells whether what is at the path, if anything is, may be read.
func isFile(path string) bool {
	info, err := os.Stat(path)
	return err != nil || info.Mode().IsRegular() || info.IsDir() || path == os.DevNull
}

// mostTold is how many warnings a reading reports, and how many mistakes: people read them.
const mostTold = 50

// bounded is the first of these, and how many more there are.
func bounded(warnings []string, what string) []string {
	if len(warnings) <= mostTold {
		return warnings
	}
	return append(warnings[:mostTold:mostTold], fmt.Sprintf("%d more %s, which are not told", len(warnings)-mostTold, what))
}
