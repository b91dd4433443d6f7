package conf

import (
	"errors"
	"flag"
	"fmt"
	"io"
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

// Set is the keys of a program and where their values came from. It serves
// one reading; to read the configuration again, make a new one. It is not safe for concurrent use.
type Set struct {
	program  Program
	flags    *flag.FlagSet
	settings []*Setting          // in the order of their registration
	byKey    map[string]*Setting // aliases too
	families []*family
	sections []*sections
	profiles *profiles // nil: sections are none

	credentials string // the folder of those that systemd gives; "": it gives none

	args     []string
	path     string // --config
	help     bool
	version  bool
	verbose  bool
	place    place            // of the values that are being set
	missing  bool             // there is no file at path
	absent   error            // the file that was named is not there
	lines    map[spot]earlier // where in the file keys stand
	told     map[string]bool  // errors about the whole file that were noted
	warnings []string
	errs     []error
}

// New is a Set that knows only --config, --help, --version and --verbose.
func New(program Program) *Set {
	s := &Set{
		program: program,
		flags:   flag.NewFlagSet(program.Name, flag.ContinueOnError),
		byKey:   map[string]*Setting{},
		lines:   map[spot]earlier{},
		told:    map[string]bool{},
	}
	s.flags.SetOutput(io.Discard)
	s.path = program.File
	s.flags.Var(pathFlag{&s.path}, "config", "the configuration file")
	s.flags.BoolVar(&s.help, "help", false, "print this and exit")
	s.flags.BoolVar(&s.version, "version", false, "print the version and exit")
	s.flags.BoolVar(&s.verbose, "verbose", false, "with --version: of what it was built, too")
	return s
}

// Add registers a key. A default of "" leaves the field as it is. The
// key's flag has hyphens for its underscores.
func (s *Set) Add(key, def, usage string, decode Decode) *Setting {
	return s.add(&Setting{set: s, key: key, flag: strings.ReplaceAll(key, "_", "-"), def: def, usage: usage, decode: decode})
}

func (s *Set) add(setting *Setting) *Setting {
	s.settings = append(s.settings, setting)
	s.byKey[setting.key] = setting
	s.flags.Var(setting, setting.flag, setting.usage)
	return setting
}

// Parse reads args, the environment (as of os.Environ) and the file. --help and
// --version are answered on stdout and give an error of exit code 0;
// wrong flags one of exit code 2. Wrong values are gathered for Err.
func (s *Set) Parse(args, environ []string, stdout io.Writer) error {
	s.Environ(environ)
	if err := ff.Parse(s.flags, s.Args(args), s.Options()...); err != nil {
		return s.Failed(err, stdout)
	}
	if rest := s.flags.Args(); len(rest) > 0 {
		return exit.With(exit.Usage, fmt.Errorf("%s; %s takes flags only, see --help",
			Unexpected("unexpected argument", args, len(args)-len(rest), nil), s.program.Name))
	}
	return s.Finish(stdout)
}

// FlagSet is the flags of all keys, for a program that parses its arguments
// itself: Environ, then ff.Parse of Args with Options, then Finish or Failed.
func (s *Set) FlagSet() *flag.FlagSet { return s.flags }

// Options are what ff needs to read the file.
func (s *Set) Options() []ff.Option {
	return []ff.Option{
		ff.WithConfigFileFlag("config"),
		ff.WithConfigFileParser(s.parseFile),
		ff.WithAllowMissingConfigFile(true),
	}
}

// Environ takes the values of the program's environment variables. An empty
// variable counts as none.
func (s *Set) Environ(environ []string) {
	defer func() { s.place = place{} }()
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		if name == credentials {
			s.credentials = value
		}
		if value == "" || !strings.HasPrefix(name, s.program.Prefix) {
			continue
		}
		s.place = place{variable: name}
		flagName := "config"
		if name != s.program.Prefix+"CONFIG" {
			setting := s.byVariable(name)
			if setting == nil {
				s.warnVariable(name)
				continue
			}
			if flagName = setting.flag; s.isOwn(setting.key) {
				s.warnings = append(s.warnings, fmt.Sprintf("environment %s: not used with the profile @%s, which alone says where to go", name, s.Profile()))
				continue
			}
		}
		if err := s.flags.Set(flagName, value); err != nil {
			s.errs = append(s.errs, fmt.Errorf("environment %s: %w", name, err))
		}
	}
}

// Args is args, after the flags of family members among them were made known.
func (s *Set) Args(args []string) []string {
	s.args = args
	for _, arg := range args {
		if name, isFlag := strings.CutPrefix(arg, "-"); isFlag {
			name, _, _ = strings.Cut(strings.TrimPrefix(name, "-"), "=")
			if s.ofSection(name, ".", hyphens) == nil {
				s.member(name)
			}
		}
	}
	return args
}

// Finish answers --help and --version, and decodes what was read.
func (s *Set) Finish(stdout io.Writer) error {
	if err := s.answer(stdout); err != nil {
		return err
	}
	s.checkMissing()
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
		return exit.With(exit.Usage, errors.New("--verbose goes with --version: it says of what the program was built; what is logged is said by log_level_console"))
	}
	return nil
}

// Failed turns an error of ff.Parse into one with an exit code. Asking for help
// or the version goes before a file that can't be read.
func (s *Set) Failed(err error, stdout io.Writer) error {
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
		if at := indexOfFlag(s.args, strings.TrimPrefix(name, "-")); at >= 0 {
			words = Unexpected("unknown flag", s.args, at, s.flagNames())
		}
		return exit.With(exit.Usage, errors.New(words))
	}
	return exit.With(exit.Usage, s.explainFile(err))
}

func (s *Set) flagNames() []string {
	var names []string
	s.flags.VisitAll(func(f *flag.Flag) { names = append(names, f.Name) })
	for _, f := range s.families {
		names = append(names, f.prefix+"NAME")
	}
	return names
}

// Path is the file that was, or would have been, read.
func (s *Set) Path() string { return s.path }

// Warnings are about values that are odd but don't keep the program from starting: the first ones,
// and how many more there are.
func (s *Set) Warnings() []string { return bounded(s.warnings, "warnings") }

// Place names the place of key's value, and the key, as warnings and errors do.
func (s *Set) Place(key string) string { return s.where(key) }

// Warn adds to the warnings one about key, told with its place.
func (s *Set) Warn(key, text string) {
	s.warnings = append(s.warnings, s.where(key)+": "+text)
}

// Given tells whether any source but the default has a value for key.
func (s *Set) Given(key string) bool { return s.byKey[key].given }

// FromFlag tells whether key got its value on the command line.
func (s *Set) FromFlag(key string) bool {
	setting := s.byKey[key]
	return setting.given && setting.place == place{}
}

// Require notes an error for each key that has no value; what for may be empty.
func (s *Set) Require(what string, keys ...string) {
	for _, key := range keys {
		if !s.Given(key) {
			s.errs = append(s.errs, fmt.Errorf("%s: required%s; give it %s", key, what, s.whereToGive(key)))
		}
	}
}

// Missing notes an error that is about no single key.
func (s *Set) Missing(what string) {
	s.errs = append(s.errs, fmt.Errorf("%s: %s", s.path, what))
}

// Bad notes that the value of key is wrong, and why.
func (s *Set) Bad(key, why string) {
	s.errs = append(s.errs, fmt.Errorf("%s: %s", s.where(key), why))
}

// Err is everything that is wrong, with exit code 2; nil if nothing is. The warnings follow: a key
// with a slip of the pen may be the one that is missing.
func (s *Set) Err() error {
	if len(s.errs) == 0 {
		return nil
	}
	if s.absent != nil { // what else is missing follows from it
		return exit.With(exit.Usage, s.absent)
	}
	all := slices.Clone(s.errs[:min(len(s.errs), mostTold)])
	if more := len(s.errs) - mostTold; more > 0 {
		all = append(all, fmt.Errorf("%d more mistakes, which are not told", more))
	}
	for _, warning := range s.Warnings() {
		all = append(all, errors.New(warning))
	}
	return exit.With(exit.Usage, errors.Join(all...))
}
