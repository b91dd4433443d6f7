package conf_test

import (
	"fmt"
	"strings"
	"testing"
)

// An error repeats a value that can't be decoded, so that the slip is seen, unless a password is in
// it: that of a password's key, or one that was given under a wrong key, too.
func TestErrorsRepeatNoPassword(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args, environ []string
		file, want    string
	}{
		"a slip":                          {args: []string{"--port=7o80"}, want: `flag --port: port: "7o80" is not allowed`},
		"the password as the port":        {args: []string{"--port=hunter2"}, environ: []string{"TESTD_PASSWORD=hunter2"}, want: "flag --port: port: its value is not allowed"},
		"the password behind the port":    {file: "password = hunter2\nport = 80hunter2\n", want: ":2: port: its value is not allowed"},
		"another one than the password":   {file: "password = other\nport = eighty\n", want: `:2: port: "eighty" is not allowed`},
		"an empty password":               {file: "password =\nport = eighty\n", want: `:2: port: "eighty" is not allowed`},
		"a job's token as a word":         {file: "launcher.env.API_TOKEN = hunter2\nmode = hunter2\n", want: ":2: mode: its value is not allowed"},
		"a section's line":                {file: "[targets]\npasswort = hunter2\n", want: ":2: targets.passwort: its value is not allowed"},
		"an address with a password":      {args: []string{"--port=u:hunter2@db"}, want: "flag --port: port: its value is not allowed"},
		"more than anybody mistypes once": {args: []string{"--port=" + strings.Repeat("hunter2", 10)}, want: "flag --port: port: its value is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, _ := newSet(writeFile(t, test.file))
			if err := set.Parse(test.args, test.environ, t.Output()); err != nil {
				t.Fatal(err)
			}
			said := fmt.Sprint(set.Err(), set.Warnings())
			if !strings.Contains(said, test.want) || strings.Contains(said, "hunter2") {
				t.Errorf("told is %s; want %q", said, test.want)
			}
		})
	}
}
