package conf

import (
	"strings"
	"testing"

	"jobd/cmd/internal/exit"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args []string
		out  string
		code int
		err  string
	}{
		"alone":             {[]string{"--version"}, "1.2.3\n", exit.Success, "version shown"},
		"verbose":           {[]string{"--version", "--verbose"}, "demo 1.2.3\ncommit: abc\n", exit.Success, "version shown"},
		"the other way":     {[]string{"--verbose", "--version"}, "demo 1.2.3\ncommit: abc\n", exit.Success, "version shown"},
		"verbose alone":     {[]string{"--verbose"}, "", exit.Usage, "--verbose goes with --version"},
		"before wrong keys": {[]string{"--version", "--verbose", "--nonsense"}, "demo 1.2.3\ncommit: abc\n", exit.Success, "version shown"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out strings.Builder
			err := New(Program{Name: "demo", Version: "1.2.3", Build: "demo 1.2.3\ncommit: abc"}).Parse(c.args, nil, &out)
			if exit.Code(err) != c.code || err == nil || !strings.Contains(err.Error(), c.err) || out.String() != c.out {
				t.Errorf("printed %q, error %v (code %d)", out.String(), err, exit.Code(err))
			}
		})
	}
}
