package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/peterbourgon/ff/v3/ffcli"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/cmd/internal/logging"
)

// surroundings are what a run of jobctl finds in the system.
type surroundings struct {
	environ     []string // as of os.Environ
	in          io.Reader
	out         io.Writer
	err         io.Writer
	terminal    bool       // out is one: tables get their lines, and colours
	width       func() int // how many columns it has at the moment, 0 where nobody knows; may be nil
	errWidth    func() int // the same of err
	bare        io.Writer  // the terminal itself, for a view that makes all texts harmless by itself; nil: out is none
	errTerminal bool       // err is one: long runs tell how far they are
	mark        string     // stands before and behind what may steer a terminal; see screen
	now         func() time.Time
	location    *time.Location // of times that are told and given
	patience    time.Duration  // with each answer of a daemon; 0: queryTimeout
	giveWay     func()         // lowers the process's priority, before it reads beside a worker; may be nil
}

// program is one run of jobctl. The commands are its methods.
type program struct {
	surroundings
	config config
	set    *conf.Set
	log    *logging.Log
}

// run carries out the one command in args:
//
//	args ──► arrange ──► ffcli ──► conf ──► the command ──► link or journal ──► out
//
// Its error knows its exit code.
func run(ctx context.Context, args []string, around surroundings) (err error) {
	defer func(given []string) { err = withhold(err, given) }(args)
	p := &program{surroundings: around}
	var line arranged
	p.set = newSet(p.environ, func(w io.Writer) bool { return usage(w, line.chosen) })
	p.config.register(p.set)
	if len(args) > 0 && args[0] == completeCommand {
		return p.complete(ctx, args[1:])
	}
	root := p.tree()
	defer func() { err = unknownUsage(root, args, err) }()
	if line, err = arrange(root, p.set.Args(args)); err != nil {
		return exit.With(exit.Usage, err)
	}
	p.set.Choose(line.profile)
	p.set.Environ(p.environ)
	if err := p.parse(root, line.args); err != nil {
		return err
	}
	if p.log, err = logging.New(p.config.log, p.err); err != nil {
		return err
	}
	p.log.Warnings(p.set.Warnings())
	if p.config.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, p.config.timeout, fmt.Errorf("no answer within %v", p.config.timeout))
		defer cancel()
	}
	return root.Run(ctx)
}

// note tells what is worth knowing beside what a command prints.
func (p *program) note(err error) { fmt.Fprintf(p.err, "jobctl: %v\n", err) }

// buffered has what print prints written in large pieces, save on a terminal, where somebody waits
// for each line.
func (p *program) buffered(print func() error) error {
	if p.terminal {
		return print()
	}
	out := p.out
	buffer := bufio.NewWriterSize(out, 64<<10)
	p.out = buffer
	defer func() { p.out = out }()
	return errors.Join(print(), buffer.Flush())
}

// parse reads flags, environment and file.
func (p *program) parse(root *ffcli.Command, args []string) error {
	err := root.Parse(args)
	var none ffcli.NoExecError
	if err != nil && !errors.As(err, &none) {
		return p.set.Failed(wrongFlag(err), p.out)
	}
	if err := p.set.Finish(p.out); err != nil {
		return err
	}
	p.config.validate(p.set)
	if err := p.set.Err(); err != nil {
		return err
	}
	if none.Command != nil {
		return wrongUsage("a command is missing; --help lists them")
	}
	return nil
}

// tree is all commands.
func (p *program) tree() *ffcli.Command {
	root := &ffcli.Command{
		Name:       "jobctl",
		ShortUsage: "[@PROFILE] COMMAND [arguments]",
		ShortHelp:  "jobctl asks jobd's workers and masters, and reads journals. Flags may stand anywhere.",
		FlagSet:    p.set.FlagSet(),
		Options:    p.set.Options(),
		Subcommands: []*ffcli.Command{
			p.listTargets(), p.listWorkers(), p.status(), p.health(), p.queue(), p.memoryUsage(),
			p.poll(), p.poke(), p.pause(), p.resume(), p.recycle(),
			p.addTarget(), p.removeTarget(), p.setTargetConcurrency(),
			p.restart(),
			p.runManual(), p.sendSignal(), p.cancel(), p.ps(), p.tail(),
			p.why(), p.show(),
			p.top(),
			p.failed(), p.retry(), p.wait(),
			p.runNow(), p.schedule(),
			p.journal(),
			help(), p.completion(),
		},
	}
	illustrate(root, "")
	return root
}

// command makes a command. Wrong flags are told by what parses them.
func command(name, arguments, help string, exec func(ctx context.Context, args []string) error) *ffcli.Command {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return &ffcli.Command{Name: name, ShortUsage: arguments, ShortHelp: help, FlagSet: flags, Exec: exec}
}

// wrongUsage is an error of exit code 2.
func wrongUsage(format string, args ...any) error {
	return exit.With(exit.Usage, fmt.Errorf(format, args...))
}
