package conf_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/store/storetest/must"
)

// parse reads a file's text; secret is in none of what it says.
func parse(t *testing.T, text, secret string, args, environ []string) (path string, warnings []string, problem string, c *settings) {
	t.Helper()
	path = writeFile(t, text)
	set, c := newSet(path)
	set.Add("launcher", "", "what", conf.NonEmpty(new(string))).OwnQuotes()
	err := set.Parse(args, environ, t.Output())
	if err == nil {
		err = set.Err()
	}
	if err != nil {
		problem = err.Error()
	}
	if said := fmt.Sprint(set.Warnings(), problem); secret != "" && strings.Contains(said, secret) {
		t.Errorf("a password is told: %s", said)
	}
	return path, set.Warnings(), problem, c
}

// What the original took without a word is taken, and a warning has the line and the remedy.
func TestOddLinesAreWarnings(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	const inside = "allowed: quotes around the whole value"
	for name, test := range map[string]struct {
		text string
		want []string // after file and colon
	}{
		"a boolean that is a word":                {"always_allow = yes", []string{"1: always_allow: its value counts as false; allowed: 1 and true, 0 and false"}},
		"a boolean in capitals":                   {"always_allow = TRUE", []string{"1: always_allow: its value counts as false"}},
		"a boolean":                               {"always_allow = 0", nil},
		"a hash cuts a password":                  {"password = hunter2#x", []string{"1: password: it is cut at its #, which begins a comment; " + inside + ", or blanks before and behind the # of a comment"}},
		"a semicolon cuts a password":             {"password = hunter2;x", []string{"1: password: it is cut at its ;"}},
		"a hash is all of a password":             {"password = #hunter2", []string{"1: password: it is cut at its #"}},
		"a hash within a password of two words":   {"password = a #hunter2", []string{"1: password: it is cut at its #"}},
		"a variable may be a password":            {"launcher.env.DB_PASS = a #hunter2", []string{"1: launcher.env.DB_PASS: it is cut at its #"}},
		"a comment behind a password":             {"password = a # hunter", nil},
		"a password in quotes":                    {`password = "a#b" #x`, nil},
		"an escaped hash":                         {`password = a\#b`, nil},
		"a comment behind another value":          {"mysql_host = a #x", nil},
		"a semicolon cuts a command":              {"launcher = sh -c 'a; b' {id}", []string{"1: launcher: it is cut at its ;"}},
		"a command with quotes of its own":        {`launcher = "/a b/c" {id}`, nil},
		"a command whose quote is not closed":     {`launcher = "/a b/c {id}`, []string{`1: launcher: its " is part of the value`}},
		"an unclosed quote":                       {`password = "hunter2`, []string{`1: password: its " is part of the value; ` + inside}},
		"an unclosed single quote":                {`password = 'hunter2`, []string{`1: password: its ' is part of the value`}},
		"an unclosed quote before a comment":      {`password = "hunter2 ;x`, []string{`1: password: its " is part of the value`}},
		"text behind the closing quote":           {`password = "hunter2" x`, []string{`1: password: its " is part of the value; ` + inside}},
		"an escape that is none":                  {`password = "hunter2\d"`, []string{`1: password: its " is part of the value; ` + inside + ", and in double quotes the escapes of JSON"}},
		"blanks around a password":                {`password = " hunter2"`, []string{"1: password: it begins or ends with a blank or a newline, which is part of it"}},
		"a key twice":                             {"port = 1\n\nport = 2", []string{"3: port: given in line 1 too, with another value; the last one counts, delete the other"}},
		"a key twice, by its other name":          {"mysql_host = a\nmysql_hostname = b", []string{"2: mysql_host: given in line 1 too"}},
		"a password twice":                        {"password = hunter2\npassword = hunter23", []string{"2: password: given in line 1 too"}},
		"a tab within a name":                     {"[targets]\na\tb = 1", []string{`2: "targets.a\tb": there is a tab or another control character within the name, as a part of it`}},
		"a name that is a key, in quotes":         {"[targets]\n\"port\" = 80", nil},
		"a line that may be a password's rest":    {"password = x\nhunter2\nhunter2==", []string{"2: the line is not a known key, and is not used", "3: the line is not a known key, and is not used"}},
		"a section that may be a password's rest": {"[hunter2 = x]", []string{"1: unknown section is not used, nor are the lines below it"}},
		"a key without its value, misspelt":       {"alwys_allow", []string{"1: the line is not a known key, and is not used; the nearest known one is always_allow"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, warnings, problem, _ := parse(t, test.text, secret, nil, nil)
			if problem != "" {
				t.Errorf("refused: %s", problem)
			}
			if len(warnings) != len(test.want) {
				t.Fatalf("warnings %q, want %q", warnings, test.want)
			}
			for i, warning := range warnings {
				if !strings.HasPrefix(warning, path+":"+test.want[i]) {
					t.Errorf("warning %q, want %q", warning, test.want[i])
				}
			}
		})
	}
}

// What could never have worked is refused, with the line and the remedy.
func TestOddLinesAreRefused(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	for name, test := range map[string]struct{ text, want string }{
		"UTF-16":                            {"h\x00o\x00\n\x00x\x00", ":1: a NUL byte; allowed: text in UTF-8"},
		"a password below the targets":      {"[targets]\na = 1\npassword = hunter2", ":3: the key password stands in the section [targets]; allowed: the place above it"},
		"a number below the targets":        {"[targets]\nport = 80", ":2: the key port stands in the section [targets]; allowed: the place above it, or quotes around it where it is a name of [targets]"},
		"a variable below the targets":      {"[targets]\nlauncher.env.A = hunter2", ":2: the key launcher.env.A stands in the section [targets]"},
		"a switch below the targets":        {"[targets]\nalways_allow", ":2: the key always_allow stands in the section [targets]"},
		"a misspelt one below the targets":  {"[targets]\npasword = hunter2", ":2: targets.pasword: its value is not allowed; allowed: a whole number from 1 to 99"},
		"something else below the targets":  {"[targets]\nhunter2", ":2: a line without a = in the section [targets]; allowed: name = value"},
		"a number with a unit":              {"port = 80k", `:1: port: "80k" is not allowed; allowed: a whole number from 1 to 65535`},
		"a concurrency as a power of ten":   {"[targets]\na = 1e3", ":2: targets.a: its value is not allowed; allowed: a whole number from 1 to 99"},
		"a negative concurrency":            {"[targets]\na = -1", `:2: targets.a: "-1" is not allowed`},
		"a concurrency of nothing":          {"[targets]\na = 0", `:2: targets.a: "0" is not allowed`},
		"an empty name":                     {"[targets]\n = 1", ":2: not understood"},
		"an empty name in quotes":           {"[targets]\n\"\" = 1", ":2: not a name"},
		"two lines in one":                  {"port = 80 password = hunter2", ":1: port: its value is not allowed"},
		"a control character in the name":   {"[targets]\n\"a\\u0007\" = 1", ":2: not a name"},
		"a target twice, without its quote": {"[targets]\na = 1\n\"a\" = 2", ":3: targets.a: the same name as in line 2; allowed: each name once"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, _, problem, _ := parse(t, test.text, secret, nil, nil)
			if !strings.Contains(problem, path+test.want) {
				t.Errorf("error %q, want %q", problem, test.want)
			}
			if strings.Count(problem, "NUL") > 1 {
				t.Errorf("told more than once: %s", problem)
			}
		})
	}
}

func TestHost(t *testing.T) {
	t.Parallel()
	var field string
	check(t, conf.Host(&field, "port"), &field, map[string]any{
		"a": "a", "a.b": "a.b", "::": "::", "::1": "::1", "[::1]": "[::1]", "10.0.0.1": "10.0.0.1", "fe80::1%eth0": "fe80::1%eth0", "x_y": "x_y",
		"": nil, "[]": nil, "a:3306": nil, "[::1]:3306": nil, "10.0.0.1:80": nil, "http://a": nil, "u:hunter2@a": nil, "a b": nil, "a, b": nil, "a/b": nil,
	})
}

// A variable that is nearly a key's is told; others are nobody's business.
func TestVariablesThatAreNearlyKnown(t *testing.T) {
	t.Parallel()
	for variable, want := range map[string]string{
		"TESTD_PASWORD":      "TESTD_PASSWORD",
		"TESTD_MYSQLHOST":    "TESTD_MYSQL_HOST",
		"TESTD_PORTS":        "TESTD_PORT",
		"TESTD_PASSWORD":     "",
		"TESTD_TARGETS_a":    "",
		"TESTD_DEFAULT_NAME": "",
		"TESTD_MASTER_PORT":  "",
		"TESTD_MOOD":         "",
		"OTHER_PASWORD":      "",
	} {
		_, warnings, _, _ := parse(t, "", "hunter2", nil, []string{variable + "=hunter2"})
		var expected []string
		if want != "" {
			expected = []string{"environment " + variable + ": unknown, and not used; the nearest known one is " + want}
		}
		if diff := cmp.Diff(expected, warnings); diff != "" {
			t.Errorf("%s (-want +got):\n%s", variable, diff)
		}
	}
}

func TestPasswordAsAFlag(t *testing.T) {
	t.Parallel()
	_, warnings, _, _ := parse(t, "", "hunter2", []string{"--password=hunter2"}, nil)
	want := []string{"flag --password: password: everybody on this host can see it in the list of processes; put it into the file or the environment"}
	if diff := cmp.Diff(want, warnings); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A file with a password is nobody else's business, and none is to be changed by everybody.
func TestModeOfTheFile(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		text string
		mode os.FileMode
		want string
	}{
		"private":                             {"password = hunter2", 0o600, ""},
		"a group's":                           {"password = hunter2", 0o640, ""},
		"everybody's":                         {"password = hunter2", 0o644, ": everybody on this host can read it (mode 0644), and there is a password in it (password); chmod o-rwx "},
		"everybody's, a variable":             {"launcher.env.API_TOKEN = hunter2", 0o604, "(launcher.env.API_TOKEN); chmod o-rwx "},
		"everybody's, without a password":     {"port = 1\npassword =", 0o644, ""},
		"everybody may change it":             {"port = 1", 0o666, ": everybody on this host can change it (mode 0666); chmod o-rwx "},
		"everybody's, and the password empty": {`password = ""`, 0o644, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := writeFile(t, test.text)
			must.Do(t, os.Chmod(path, test.mode))
			link := filepath.Join(t.TempDir(), "link.conf")
			must.Do(t, os.Symlink(path, link))
			for _, config := range []string{path, link} {
				set, _ := newSet(config)
				must.Do(t, set.Parse(nil, nil, t.Output()))
				said := strings.Join(set.Warnings(), "\n")
				if test.want == "" && said != "" || test.want != "" && !strings.Contains(said, test.want+config) && !strings.Contains(said, test.want) {
					t.Errorf("warnings %q, want %q", said, test.want)
				}
			}
		})
	}
}

// A link that leads nowhere is no missing default file.
func TestLinkToNowhere(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "testd.conf")
	must.Do(t, os.Symlink("/nowhere/at/all", link))
	set, _ := newSet(link)
	must.Do(t, set.Parse(nil, nil, t.Output()))
	want := "config " + link + ": it is a link to /nowhere/at/all, where there is no file"
	if err := set.Err(); err == nil || err.Error() != want || exit.Code(err) != exit.Usage {
		t.Errorf("error %v, want %s", err, want)
	}
}

// A file that is longer than anybody writes is no file of configuration.
func TestEndlessFile(t *testing.T) {
	t.Parallel()
	file := writeFile(t, "")
	if err := os.Truncate(file, 32<<20); err != nil { // of NUL bytes
		t.Fatal(err)
	}
	set, _ := newSet("")
	err := set.Parse([]string{"--config=" + file}, nil, t.Output())
	if err == nil || !strings.Contains(err.Error(), "config "+file+": it is longer than 16 MiB") {
		t.Errorf("error %v", err)
	}
}

// However a line with a password is broken, none of what is said of it has any part of the
// password.
func TestNoPartOfAPasswordIsTold(t *testing.T) {
	t.Parallel()
	const secret = "Xq7Zk9Wv"
	keys := []string{"password", "pasword", "PASSWORD", `"password"`, `"password`, "mysql password", "targets.password", "launcher.env.PASS", "[password", "[password]", "b"}
	betweens := []string{" = ", "=", ":", " ", "\t", " == ", "\n", " =\n", "=\"\n", "]=", " = ; ", " = #", "\x00=", "\r"}
	values := []string{secret, `"` + secret, `'` + secret, `"` + secret + `" x`, `"` + secret + `\q"`, secret + "==", "“" + secret + "”", secret + "\u200b", "a\n" + secret, "a " + secret + "\n[" + secret + "]", secret + ":" + secret + "@x"}
	sections := []string{"", "[targets]\n", "[target]\n"}
	path := writeFile(t, "")
	for _, section := range sections {
		for _, key := range keys {
			for _, between := range betweens {
				for _, value := range values {
					text := section + key + between + value
					must.Do(t, os.WriteFile(path, []byte(text), 0o600))
					set, _ := newSet(path)
					err := set.Parse(nil, nil, t.Output())
					if said := fmt.Sprint(err, set.Err(), set.Warnings()); strings.Contains(strings.ToLower(said), strings.ToLower(secret)) {
						t.Errorf("%q: %s", text, said)
					}
				}
			}
		}
	}
}
