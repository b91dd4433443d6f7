package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/must"
)

const completionStatus = `{"targets": {"mail": {}, "mail-long": {}, "video:fast": {}, "a b": {}, "\u001b[2J": {}}, "memoryUsage": {}}`

// What is offered for the last word of a line.
func TestComplete(t *testing.T) {
	t.Parallel()
	worker := startDaemon(t, "", map[string]any{"status": json.RawMessage(completionStatus)})
	master := startDaemon(t, "s3cret", map[string]any{"status": json.RawMessage(`{"workers": [
		{"name": "node-1", "targets": ["mail", "video"]}, {"name": "node-2", "targets": ["mail", "reports"]}], "memoryUsage": {}}`)})
	environ, _ := profilesFile(t, fmt.Sprintf("port = %s\n[prod]\nmaster = 1\nport = %s\npassword = s3cret\n[prometheus]\n", worker.port, master.port))
	for line, want := range map[string][]string{
		"sta":                              {"status"},
		"journal st":                       {"state", "stats"},
		"help journal st":                  {"state", "stats"},
		"help pause ":                      nil,
		"--output json journal st":         {"state", "stats"},
		"--output ":                        {"table", "json"},
		"--output=j":                       {"--output=json"},
		"status --output=t":                {"--output=table"},
		"journal log --kin":                {"--kind"},
		"journal log --kind do":            {"done"},
		"journal log --kind=do":            {"--kind=done"},
		"journal log --kind accepted,do":   {"accepted,done"},
		"journal log --kind=accepted,do":   {"--kind=accepted,done"},
		"journal state --status re":        {"released", "retried"},
		"journal stats --by ":              {"target", "hour", "worker"},
		"journal export --format ":         {"jsonl", "csv"},
		"journal verify --journal ":        {":files"},
		"--config ":                        {":files"},
		"journal log --no":                 nil,
		"poll --n":                         nil,
		"--mas":                            {"--master", "--master-port"},
		"completion ":                      {"bash", "zsh", "fish"},
		"completion bash ":                 nil,
		"pause mail":                       {"mail", "mail-long"},
		"pause mail mail-":                 {"mail-long"},
		"pause -- vi":                      {"video:fast"},
		"pause 'a":                         {"a b"},
		`pause a\ `:                        {"a b"},
		"pause ":                           {"a b", "mail", "mail-long", "video:fast"}, // and not what steers the terminal
		"add-target mail ":                 nil,
		"add-target mail":                  {"mail", "mail-long"},
		"journal log --target vi":          {"video:fast"},
		"send-signal TER":                  {"TERM"},
		"send-signal TERM ":                nil,
		"@pro":                             {"@prod", "@prometheus"},
		"@prod pause ":                     {"mail", "reports", "video"},
		"pause @prod vi":                   {"video"},
		"@prod send-signal TERM m":         {"mail:", ":unfinished"},
		"--master --port=1 pause ":         nil, // nobody is there
		"@prod --password pause ":          nil, // nobody is asked for a password
		"status ":                          nil,
		"nonsense ":                        nil,
		"--nonsense st":                    {"status"},
		"journal log --n=3 --follow --jou": {"--journal"},
		"":                                 {"status", "pause", "journal", "help", "completion"},
	} {
		got := jobctl{environ: environ}.run(t, completeCommand, "line", "jobctl "+line)
		var words []string
		for one := range strings.Lines(got.out) {
			word, _, _ := strings.Cut(strings.TrimRight(one, "\n"), "\t")
			if words = append(words, word); line == "" && !slices.Contains(want, word) {
				words = words[:len(words)-1]
			}
		}
		slices.Sort(words)
		slices.Sort(want)
		if !slices.Equal(words, want) || got.code != 0 || got.err != "" {
			t.Errorf("%q: %q, want %q; %+v", line, words, want, got)
		}
	}
	for _, args := range [][]string{{completeCommand}, {completeCommand, "line"}, {completeCommand, "line", ""}, {completeCommand, "words"}, {completeCommand, "x", "y"}} {
		if got := (jobctl{environ: environ}).run(t, args...); got != (output{}) {
			t.Errorf("%q: %+v", args, got)
		}
	}
	got := jobctl{environ: environ}.run(t, completeCommand, "words", "journal", "--follow", "ver")
	if got != (output{out: "verify\tcheck that nothing is missing, damaged or altered\n"}) {
		t.Errorf("%+v", got)
	}
}

// A daemon that hangs is waited for as long as somebody who has pressed a key waits.
func TestCompletionDoesNotHang(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	port := strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	begin := time.Now()
	got := jobctl{environ: []string{"JOBCTL_PORT=" + port}}.run(t, completeCommand, "line", "jobctl pause ")
	if took := time.Since(begin); got != (output{}) || took > queryTimeout/2 {
		t.Errorf("%+v after %v", got, took)
	}
}

// Whatever takes certain words only has them offered, and takes what is offered.
func TestChoicesAreTaken(t *testing.T) {
	t.Parallel()
	_, root := newTree()
	walk(root, nil, func(c *cmd, words []string) {
		c.FlagSet.VisitAll(func(f *flag.Flag) {
			choices := choicesOf(f)
			for _, choice := range choices {
				if err := f.Value.Set(choice); err != nil {
					t.Errorf("%q --%s %s: %v", words, f.Name, choice, err)
				}
			}
			err := f.Value.Set("no such word")
			if err != nil && strings.Contains(err.Error(), "allowed are") && len(choices) == 0 {
				t.Errorf("%q --%s takes certain words only, and offers none: %v", words, f.Name, err)
			}
		})
	})
	for _, key := range []string{"output", "log-level", "tls"} {
		for _, choice := range choicesOf(root.FlagSet.Lookup(key)) {
			p, _ := newTree()
			if err := p.set.Parse([]string{"--" + key, choice}, nil, t.Output()); err != nil || p.set.Err() != nil {
				t.Errorf("--%s %s: %v, %v", key, choice, err, p.set.Err())
			}
		}
	}
}

func TestSplitLine(t *testing.T) {
	t.Parallel()
	for line, want := range map[string][]string{
		"":              {""},
		"a":             {"a"},
		"a ":            {"a", ""},
		" a  b ":        {"a", "b", ""},
		`a 'b c' "d e"`: {"a", "b c", "d e"},
		`a 'b c`:        {"a", "b c"},
		`a "b 'c\"d`:    {"a", `b 'c"d`},
		`a\ b c\\d '\'`: {"a b", `c\d`, `\`},
		`a ''`:          {"a", ""},
		`a '' b`:        {"a", "", "b"},
	} {
		if got := splitLine(line); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}
