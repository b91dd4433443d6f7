package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"jobd/cmd/internal/conf"
	"jobd/net/principal"
)

// token is the commands about tokens, which a daemon knows by the lines of its principals_file.
func (p *program) token() *cmd {
	c := command("token COMMAND", "make a token that identifies a client to daemons, or show what a token may do", nil)
	c.Subcommands = []*cmd{p.tokenNew(), p.tokenCheck()}
	return c
}

// tokenForm is what is told of a token, as JSON.
type tokenForm struct {
	Token      string `json:"token,omitempty"` // of a new one
	Line       string `json:"line,omitempty"`  // for the file, of a new one
	Credential string `json:"credential,omitempty"`
	Name       string `json:"name,omitempty"`
	Scope      string `json:"scope,omitempty"`
	Targets    string `json:"targets,omitempty"`
	Expires    string `json:"expires,omitempty"` // RFC 3339; "": never
}

func (p *program) tokenNew() *cmd {
	scope, targets := "", ""
	var end time.Time
	c := command("token new NAME --scope S --targets T,… [--expires D]", "make a token, and its line for a principals_file; the token is printed once and kept nowhere", func(_ context.Context, args []string) error {
		if len(args) != 1 || scope == "" || targets == "" {
			return wrongUsage("token new: needs a name, --scope and --targets, as in: jobctl token new shop --scope submit --targets mail")
		}
		token, credential, err := principal.NewToken(args[0])
		if err != nil {
			return wrongUsage("token new: %q is %w", args[0], err)
		}
		if _, err := principal.ParseTargets(targets); err != nil {
			return wrongUsage("token new: --targets: %q is %w", targets, err)
		}
		form := tokenForm{Token: token, Line: strings.Join([]string{args[0], scope, targets, credential}, "  ")}
		if !end.IsZero() {
			form.Line += "  expires=" + end.UTC().Format(time.RFC3339)
		}
		if p.json() {
			p.printJSON(form)
			return nil
		}
		p.say("The token, for the client, as its password. It is shown only now:\n\n%s\n\n"+
			"The line, for the principals_file of each daemon that should accept it:\n\n%s\n", form.Token, form.Line)
		return nil
	})
	c.FlagSet.Var(oneOf{value: &scope, allowed: []string{"status", "read", "submit", "run", "admin", "worker"}}, "scope", "what it may do: status, read, submit, run, admin or worker")
	c.FlagSet.StringVar(&targets, "targets", "", "the targets that it may use: names with commas between them, NAME/* for all below NAME/, or * for all")
	c.value("expires", "how long it is valid, as 90d, or until which day (UTC), as 2027-01-01 (default: for ever)", func(text string) (err error) {
		if end, err = time.Parse(time.DateOnly, text); err == nil {
			return nil
		}
		var lasts time.Duration
		err = conf.Duration(&lasts, time.Minute)(text)
		end = p.now().Add(lasts)
		return err
	})
	return c
}

func (p *program) tokenCheck() *cmd {
	file := ""
	c := command("token check [--file FILE]", "tell what a principals_file (--file) lets a token do; without --file print the token's digest. jobctl asks for the token, or reads it from stdin", func(context.Context, []string) error {
		token, err := p.secret("token")
		if err != nil {
			return err
		}
		if token = strings.TrimSpace(token); !principal.IsToken(token) {
			return errors.New("that is not a token of jobctl token new: its form or its checksum is wrong")
		}
		form := tokenForm{Credential: principal.Credential(token)}
		if file != "" {
			keeper, err := principal.Open(file, p.log.Logger)
			if err != nil {
				return err
			}
			line := keeper.Token(token)
			if line == nil {
				return fmt.Errorf("%s: no line has this token's digest, or it has expired: %s", file, form.Credential)
			}
			form.Name, form.Scope, form.Targets = line.Name, line.Scope.String(), line.Targets.String()
			if !line.Expires.IsZero() {
				form.Expires = line.Expires.Format(time.RFC3339)
			}
		}
		switch {
		case p.json():
			p.printJSON(form)
		case file == "":
			p.say("That is a token; --file FILE shows what it may do. Its digest, for the file:\n\n%s\n", form.Credential)
		default:
			p.say("name     %s\nscope    %s\ntargets  %s\nexpires  %s\n", form.Name, form.Scope, form.Targets, cmp.Or(form.Expires, "never"))
		}
		return nil
	})
	c.FlagSet.StringVar(&file, "file", "", "the principals_file to look into; run this as the account of the daemon, as in sudo -u jobd")
	return c
}
