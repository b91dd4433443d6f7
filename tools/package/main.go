// Command package builds the three programs and makes of them what is published: for each
// architecture a .deb, an .rpm, a .tar.gz and a list of what is linked in (SPDX), and SHA256SUMS.
//
//	go run . --out ../../dist --commit NAME --date DATE --epoch SECONDS --arch amd64,arm64
//
// Equal sources and an equal compiler make equal bytes, wherever and whenever that is: no file's time,
// owner or order, no path, and no name of this machine gets into what is made. `make package` says
// which commit it is.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "package:", err)
		os.Exit(1)
	}
}

// order is what is to be made.
type order struct {
	root    string // of the checkout
	out     string // the folder for what is made
	commit  string // of which the programs are built; "": unknown
	date    string // of the commit, RFC 3339
	time    time.Time
	version string // x.y.z, from the sources
	release string // how often this version was packaged
	archs   []string
	formats []string // deb, rpm, tar
	work    string   // a folder that is gone afterwards
}

// run makes what the arguments say.
func run(args []string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.work, err = os.MkdirTemp("", "jobd-package-"); err != nil {
		return err
	}
	defer os.RemoveAll(o.work)
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return err
	}
	var made []string
	for _, arch := range o.archs {
		names, err := o.make(arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		made = append(made, names...)
	}
	return o.sums(made)
}

// make makes everything for one architecture, and tells the names of the files.
func (o order) make(arch string) ([]string, error) {
	programs, err := o.build(arch)
	if err != nil {
		return nil, err
	}
	linked, err := o.linked(programs)
	if err != nil {
		return nil, err
	}
	contents, err := o.stage(arch, programs, linked)
	if err != nil {
		return nil, err
	}
	return o.pack(arch, contents)
}

func parse(args []string) (order, error) {
	var o order
	flags := flag.NewFlagSet("package", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "../..", "the checkout")
	flags.StringVar(&o.out, "out", "../../dist", "the folder for what is made")
	flags.StringVar(&o.commit, "commit", "", "of which the programs are built")
	flags.StringVar(&o.date, "date", "", "of the commit, as RFC 3339 has it")
	flags.StringVar(&o.release, "release", "1", "how often this version was packaged")
	epoch := flags.String("epoch", "", "the time that all files get, in seconds since 1970; else that of the version in CHANGELOG.md")
	archs := flags.String("arch", "amd64,arm64", "as Go names them")
	formats := flags.String("format", "deb,rpm,tar", "what to make")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.archs, o.formats = strings.Split(*archs, ","), strings.Split(*formats, ",")
	for _, format := range o.formats {
		if !slices.Contains([]string{"deb", "rpm", "tar"}, format) {
			return o, fmt.Errorf("--format %q: allowed: deb, rpm and tar", format)
		}
	}
	for _, arch := range o.archs {
		if !slices.Contains([]string{"amd64", "arm64"}, arch) {
			return o, fmt.Errorf("--arch %q: allowed: amd64 and arm64", arch)
		}
	}
	for _, path := range []*string{&o.root, &o.out} {
		absolute, err := filepath.Abs(*path)
		if err != nil {
			return o, err
		}
		*path = absolute
	}
	if _, err := strconv.ParseUint(o.release, 10, 16); err != nil {
		return o, fmt.Errorf("--release %q: allowed: a number", o.release)
	}
	return o, errors.Join(o.readVersion(), o.readTime(*epoch))
}

var versionLine = regexp.MustCompile(`(?m)^const Version = "(\d+\.\d+\.\d+)"$`)

// readVersion takes the version from the sources: a program for another architecture can't be asked.
func (o *order) readVersion() error {
	const file = "cmd/internal/version/version.go"
	source, err := os.ReadFile(filepath.Join(o.root, file))
	if err != nil {
		return fmt.Errorf("is --root a checkout of jobd? %w", err)
	}
	found := versionLine.FindSubmatch(source)
	if found == nil {
		return fmt.Errorf("%s: no line %s", file, versionLine)
	}
	o.version = string(found[1])
	return nil
}

// readTime finds the time that all files get.
func (o *order) readTime(epoch string) error {
	if epoch != "" {
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil || seconds < 0 {
			return fmt.Errorf("--epoch %q: allowed: seconds since 1970", epoch)
		}
		o.time = time.Unix(seconds, 0).UTC()
		return nil
	}
	changes, err := os.ReadFile(filepath.Join(o.root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	heading := regexp.MustCompile(`(?m)^## \[` + regexp.QuoteMeta(o.version) + `\] - (\d{4}-\d{2}-\d{2})$`)
	found := heading.FindSubmatch(changes)
	if found == nil {
		return fmt.Errorf("CHANGELOG.md has no line \"## [%s] - YYYY-MM-DD\", and without a commit there is no other date: set SOURCE_DATE_EPOCH", o.version)
	}
	o.time, err = time.Parse(time.DateOnly, string(found[1]))
	return err
}
