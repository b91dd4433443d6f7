package daemon

import (
	"context"
	"fmt"
	"io"
	"strings"

	"jobd/cmd/internal/check"
	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/logging"
	"jobd/cmd/internal/signals"
	"jobd/cmd/internal/version"
)

// Settings is the part of a configuration that both daemons have.
type Settings struct {
	Path     string   // of the file that was read
	Warnings []string // about the configuration
	Listen   conf.Listen
	HTTP     conf.HTTP
	Log      logging.Config
	Check    check.Mode
}

// keys are the keys of one daemon. Register adds all of them, those of the Settings too, in the
// order of the help; Validate finds what is wrong with values that could be decoded.
type keys interface {
	Register(set *conf.Set)
	Validate(set *conf.Set, environ []string)
}

// Read reads the configuration from args, the environment (as of os.Environ) and the file. All
// mistakes are in the one error. Read answers --help and --version on stdout, and gives an error
// with exit code 0 then. Where args can't be understood, it reads nothing, and Check is not set.
func (s *Settings) Read(program conf.Program, own keys, args, environ []string, stdout io.Writer) error {
	program.Version, program.Build = version.Version, version.Of().Text(program.Name)
	program.Summary += "\nWith --check it checks all that it needs, reports what is wrong, and changes nothing."
	set := conf.New(program)
	s.Check.Register(set)
	own.Register(set)
	for _, variable := range environ {
		if held, is := strings.CutPrefix(variable, check.HeldVariable+"="); is {
			s.Check.Held = held
		}
	}
	if err := set.Parse(args, environ, stdout); err != nil {
		s.Check = check.Mode{}
		return err
	}
	s.Listen.Validate(set)
	s.HTTP.Validate(set, &s.Listen)
	own.Validate(set, environ)
	s.Path, s.Warnings = set.Path(), set.Warnings()
	return set.Err()
}

// OpenLog opens the log, and writes the warnings about the configuration into it.
func (s *Settings) OpenLog(stderr io.Writer) (*logging.Log, error) {
	log, err := logging.Open(s.Log, stderr)
	if err != nil {
		return nil, err
	}
	log.Warnings(s.Warnings)
	return log, nil
}

// Look is --check: it looks at all that the daemon needs, at once, and writes one line about each
// thing to stdout. It changes nothing, takes no lock and leaves no file, so that it may be done
// beside the daemon. Where the configuration has mistakes, it looks at the rest all the same.
//
// running says in words which daemon runs with this configuration, "" where none does; parts are
// the things that only this daemon needs. A worker that is to start again asks the same of the
// binary that will follow it; the report then begins with the program's name and version.
func (s *Settings) Look(program string, mistakes error, running func() string, parts []check.Part, stdout io.Writer) error {
	signals.Release() // whoever waits for the report may give it up
	start := s.Check.Served != ""
	var own []check.Part
	add := func(what string, possible bool, look func(ctx context.Context) []check.Finding) {
		if possible {
			own = append(own, check.Part{What: what, Look: look})
		}
	}
	add("log_file", true, func(context.Context) []check.Finding { return check.LogFile(s.Log.File) })
	add("address", s.Listen.Host != "", func(ctx context.Context) []check.Finding {
		return s.Check.Address(ctx, s.Listen.Address(), running)
	})
	add("listen_unix", s.Listen.Unix != "", func(ctx context.Context) []check.Finding { return s.Check.Socket(ctx, s.Listen.Unix, running) })
	add("certificate", s.Listen.TLS.Offered(), func(context.Context) []check.Finding { return check.Certificate(s.Listen.TLS) })
	add("principals_file", s.Listen.Principals != "", func(context.Context) []check.Finding { return check.Principals(s.Listen.Principals) })
	add("http_listen", s.HTTP.On(), func(context.Context) []check.Finding { return s.Check.HTTP("http_listen", s.HTTP, running) })
	findings := check.Configuration(s.Path, s.Warnings, mistakes)
	findings = append(findings, check.Look(append(own, parts...))...)
	if start {
		if _, err := fmt.Fprintln(stdout, program, version.Version); err != nil {
			return fmt.Errorf("write the report: %w", err)
		}
	}
	return check.Report(stdout, findings, start)
}
