package conf

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/peterbourgon/ff/v3"

	"jobd/cmd/internal/exit"
)

// Program says whose configuration a Set is.
type Program struct {
	Name    string // jobd
	Summary string // one sentence for the help
	Version string // x.y.z
	Build   string // what --version --verbose prints, without a newline at its end
	Prefix  string // of environment variables, with its underscore: JOBD_
	File    string // the default path of the file; "" for none

	// Usage writes what stands above the keys in the help, and tells whether the keys are to follow;
	// nil: the summary and a line of usage.
	Usage func(w io.Writer) (keys bool)
	Below func(w io.Writer) // writes what stands below the keys; nil: nothing
}

// Set is the table of a program's keys, and what they were given. It serves one reading; to read the
// configuration again, make a new one. It is not safe for concurrent use.
type Set struct {
	program  Program
	flags    *flag.FlagSet
	table    []*Setting          // as declared
	group    string              // of what is declared next
	settings []*Setting          // with the names in them, those of the table that need none first
	byKey    map[string]*Setting // likewise
	heads    map[string]int      // sections [word NAME] that are there, by the beginning of their keys, and their lines
	profiles *profiles           // nil: sections are none

	credentials string // the folder of those that systemd gives; "": it gives none

	args     []string
	path     string // --config
	help     bool
	version  bool
	verbose  bool
	place    place            // of the values that are being set
	missing  bool             // there is no file at path
	absent   bool             // though it was named
	lines    map[string]entry // of the file, by section and key
	warnings []string
	errs     []string
}

// New is a Set that knows only --config, --help, --version and --verbose.
func New(program Program) *Set {
	s := &Set{
		program: program,
		flags:   flag.NewFlagSet(program.Name, flag.ContinueOnError),
		byKey:   map[string]*Setting{},
		heads:   map[string]int{},
		lines:   map[string]entry{},
	}
	s.flags.SetOutput(io.Discard)
	s.path = program.File
	s.flags.StringVar(&s.path, "config", s.path, "the configuration file")
	s.flags.BoolVar(&s.help, "help", false, "print this and exit")
	s.flags.BoolVar(&s.version, "version", false, "print the version and exit")
	s.flags.BoolVar(&s.verbose, "verbose", false, "with --version: its commit and date, too")
	return s
}

// Parse reads args, the environment (as of os.Environ) and the file. --help and
// --version are answered on stdout and give an error of exit code 0;
// wrong flags one of exit code 2. Wrong values are gathered for Err.
func (s *Set) Parse(args, environ []string, stdout io.Writer) error {
	s.environ(environ)
	if err := ff.Parse(s.flags, s.Args(args)); err != nil {
		return s.failed(err, stdout)
	}
	if rest := s.flags.Args(); len(rest) > 0 {
		return exit.With(exit.Usage, fmt.Errorf("%s; %s takes flags only, see --help",
			Unexpected("unexpected argument", args, len(args)-len(rest), nil), s.program.Name))
	}
	return s.finish(stdout)
}

// FlagSet is the flags of all keys.
func (s *Set) FlagSet() *flag.FlagSet { return s.flags }

// environ takes the values of the program's environment variables. An empty
// variable counts as none.
func (s *Set) environ(environ []string) {
	defer func() { s.place = place{} }()
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if name == credentials {
			s.credentials = value
		}
		key, isOurs := strings.CutPrefix(name, s.program.Prefix)
		if value == "" || !isOurs {
			continue
		}
		s.place = place{variable: name}
		switch setting := s.lookup(key, inVariable); {
		case key == "CONFIG":
			_ = s.flags.Set("config", value) // takes any text
		case setting == nil:
			s.warnVariable(name)
		case s.isOwn(setting.key):
			s.warn("environment %s: not used: the profile @%s alone sets the address", name, s.Profile())
		default:
			_ = setting.Set(value)
		}
	}
}

// Args is args, after the flags with names in them were made known.
func (s *Set) Args(args []string) []string {
	s.args = args
	for _, arg := range args {
		if name, isFlag := flagName(arg); isFlag {
			s.lookup(name, hyphens)
		}
	}
	return args
}

// flagName is the name of the flag that a word of the command line would be.
func flagName(arg string) (name string, isFlag bool) {
	name, isFlag = strings.CutPrefix(arg, "-")
	name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
	return name, isFlag
}

// finish answers --help and --version, and decodes what was read.
func (s *Set) finish(stdout io.Writer) error {
	if err := s.answer(stdout); err != nil {
		return err
	}
	if err := s.readFile(); err != nil {
		return exit.With(exit.Usage, err)
	}
	s.checkProfile()
	s.readKept()
	for _, setting := range s.settings {
		setting.finish()
	}
	s.checkMode()
	return nil
}

// answer shows the version or the help, if one was asked for, and then gives an
// error of exit code 0.
func (s *Set) answer(stdout io.Writer) error {
	switch {
	case s.version && s.verbose:
		fmt.Fprintln(stdout, s.program.Build)
		return exit.With(exit.Success, errors.New("version shown"))
	case s.version:
		fmt.Fprintln(stdout, s.program.Version)
		return exit.With(exit.Success, errors.New("version shown"))
	case s.help:
		s.Help(stdout)
		return exit.With(exit.Success, flag.ErrHelp)
	case s.verbose:
		return exit.With(exit.Usage, errors.New("--verbose goes with --version: it adds the commit and its date; log_level_console sets what is logged"))
	}
	return nil
}

// failed turns an error of ff.Parse into one with an exit code.
func (s *Set) failed(err error, stdout io.Writer) error {
	s.help = s.help || errors.Is(err, flag.ErrHelp)
	if answered := s.answer(stdout); answered != nil {
		return answered
	}
	text := err.Error()
	if _, name, found := strings.Cut(text, "flag needs an argument: -"); found {
		if family, _, isMember := strings.Cut(name, "."); isMember { // whose name may be anything
			return exit.With(exit.Usage, fmt.Errorf("a flag --%s.NAME needs a value", family))
		}
	}
	if _, name, found := strings.Cut(text, "flag provided but not defined: -"); found {
		words := Unexpected("unknown flag", []string{"--?"}, 0, nil)
		at := slices.IndexFunc(s.args, func(arg string) bool {
			given, isFlag := flagName(arg)
			return isFlag && given == strings.TrimPrefix(name, "-")
		})
		if at >= 0 {
			words = Unexpected("unknown flag", s.args, at, s.flagNames())
		}
		return exit.With(exit.Usage, errors.New(words))
	}
	return exit.With(exit.Usage, err)
}

func (s *Set) flagNames() (names []string) {
	s.flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	for _, key := range s.table {
		names = append(names, key.spelt(hyphens))
	}
	return names
}

// Path is the file that was, or would have been, read.
func (s *Set) Path() string { return s.path }

// Warnings are about values that are odd but don't keep the program from starting: the first ones,
// and how many more there are.
func (s *Set) Warnings() []string { return bounded(s.warnings, "warnings") }

// mostTold is how many warnings a reading reports, and how many mistakes: people read them.
const mostTold = 50

// bounded is the first of these, and how many more there are.
func bounded(told []string, what string) []string {
	if len(told) <= mostTold {
		return told
	}
	return append(told[:mostTold:mostTold], fmt.Sprintf("%d more %s, not shown", len(told)-mostTold, what))
}

func (s *Set) warn(format string, args ...any) {
	s.warnings = append(s.warnings, fmt.Sprintf(format, args...))
}

func (s *Set) bad(format string, args ...any) { s.errs = append(s.errs, fmt.Sprintf(format, args...)) }

// Warn adds to the warnings one about key, told with its place.
func (s *Set) Warn(key, text string) { s.warn("%s: %s", s.Place(key), text) }

// Bad notes that the value of key is wrong, and why.
func (s *Set) Bad(key, why string) { s.bad("%s: %s", s.Place(key), why) }

// BadSection notes that something is wrong with the section [word NAME] itself, such as its name.
func (s *Set) BadSection(word, name, why string) {
	prefix := word + "." + name + "."
	if line := s.heads[prefix]; line > 0 {
		s.bad("%s:%d: [%s %s]: %s", s.path, line, word, name, why)
		return
	}
	for _, setting := range s.settings {
		if setting.given && strings.HasPrefix(setting.key, prefix) {
			s.Bad(setting.key, why)
			return
		}
	}
}

// Given tells whether any source but the default has a value for key.
func (s *Set) Given(key string) bool { return s.byKey[key].given }

// FromFlag tells whether key got its value on the command line.
func (s *Set) FromFlag(key string) bool { return s.Given(key) && s.byKey[key].place == place{} }

// FromFile tells whether key got its value from the file.
func (s *Set) FromFile(key string) bool { return s.Given(key) && s.byKey[key].place.line > 0 }

// Require notes an error for each key that has no value; what for may be empty.
func (s *Set) Require(what string, keys ...string) {
	for _, key := range keys {
		if s.Given(key) {
			continue
		}
		ways := fmt.Sprintf("as --%s or as %s%s", hyphens(key), s.program.Prefix, inVariable(key))
		switch {
		case s.missing:
			ways = fmt.Sprintf("in %s (no such file now), %s", s.path, ways)
		case s.path != "":
			ways = fmt.Sprintf("in %s, %s", s.path, ways)
		}
		s.bad("%s: required%s; give it %s", key, what, ways)
	}
}

// Missing notes an error that is about no single key.
func (s *Set) Missing(what string) { s.bad("%s: %s", s.path, what) }

// Err is everything that is wrong, with exit code 2; nil if nothing is. The warnings follow: a key
// with a slip of the pen may be the one that is missing.
func (s *Set) Err() error {
	switch {
	case len(s.errs) == 0:
		return nil
	case s.absent: // what else is missing follows from it
		return exit.With(exit.Usage, fmt.Errorf("config %s: no such file", s.path))
	}
	all := append(bounded(s.errs, "mistakes"), s.Warnings()...)
	return exit.With(exit.Usage, errors.New(strings.Join(all, "\n")))
}

// Changed lists the keys whose values differ from those of a former reading, in order. The values
// stay here: there may be passwords among them.
func (s *Set) Changed(since *Set) []string {
	values := func(of *Set) map[string]string {
		given := map[string]string{}
		for _, setting := range of.settings {
			if setting.given {
				given[setting.key] = setting.text
			}
		}
		return given
	}
	now, before := values(s), values(since)
	keys := maps.Clone(now)
	maps.Copy(keys, before)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(keys)), func(key string) bool {
		value, given := now[key]
		former, was := before[key]
		return value == former && given == was
	})
}

// IsLive tells whether a change of key takes effect when the configuration is read again.
func (s *Set) IsLive(key string) bool {
	declared, _ := s.match(key, plainly)
	return declared != nil && declared.live
}
