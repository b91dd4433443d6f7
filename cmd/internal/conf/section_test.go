package conf_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/store/storetest/must"
)

// limits are what a section of these tests has.
type limits struct {
	Attempts int
	Grace    time.Duration
	Env      map[string]string
}

// withSections is newSet with sections [target NAME].
func withSections(file string) (*conf.Set, map[string]*limits) {
	set, _ := newSet(file)
	all := map[string]*limits{}
	of := func(names []string) *limits {
		if all[names[0]] == nil {
			all[names[0]] = &limits{Env: map[string]string{}}
		}
		return all[names[0]]
	}
	set.AddNamed("target.NAME.attempts", "", "how often", func(names []string) conf.Decode { return conf.Int(&of(names).Attempts, 1, 99) })
	set.AddNamed("target.NAME.kill_after", "10s", "how long", func(names []string) conf.Decode { return conf.WholeSeconds(&of(names).Grace, conf.Longest) })
	set.AddNamed("target.NAME.launcher.env.NAME", "", "a variable", func(names []string) conf.Decode { return intoMap(of(names).Env, names[1]) })
	return set, all
}

const grace = 10 * time.Second

func TestSections(t *testing.T) {
	t.Parallel()
	none := map[string]string{}
	for name, test := range map[string]struct {
		file    string
		environ []string
		args    []string
		want    map[string]*limits
	}{
		"nothing said":        {want: map[string]*limits{}},
		"its head alone":      {file: "[target a]\n", want: map[string]*limits{"a": {Grace: grace, Env: none}}},
		"keys":                {file: "[target a]\nattempts = 3 ; comment\nkill_after = 1m\n", want: map[string]*limits{"a": {Attempts: 3, Grace: time.Minute, Env: none}}},
		"before other names":  {file: "[target a]\nattempts = 3\n[targets]\n\"attempts\" = 7\n", want: map[string]*limits{"a": {Attempts: 3, Grace: grace, Env: none}}},
		"a dotted key":        {file: "target.a.attempts = 3\n", want: map[string]*limits{"a": {Attempts: 3, Grace: grace, Env: none}}},
		"names as they come":  {file: "[target a/b:c.d x]\nattempts = 3\n", want: map[string]*limits{"a/b:c.d x": {Attempts: 3, Grace: grace, Env: none}}},
		"blanks around":       {file: "[ target\t  a  ] ; comment\nattempts = 3\n", want: map[string]*limits{"a": {Attempts: 3, Grace: grace, Env: none}}},
		"quotes":              {file: "[target \" a]\\\"\" ]\nattempts = 3\n['x] # \n", want: map[string]*limits{` a]"`: {Attempts: 3, Grace: grace, Env: none}}},
		"single quotes":       {file: "[target ' a\\b'] # ]\nattempts = 3\n", want: map[string]*limits{` a\b`: {Attempts: 3, Grace: grace, Env: none}}},
		"a backquote":         {file: "[target `b`]\nattempts = 3\n", want: map[string]*limits{"`b`": {Attempts: 3, Grace: grace, Env: none}}},
		"a quote within":      {file: "[target it's]\nattempts = 3\n", want: map[string]*limits{"it's": {Attempts: 3, Grace: grace, Env: none}}},
		"a family":            {file: "[target a]\nlauncher.env.attempts = 3\nlauncher.env.kill_after = x\n", want: map[string]*limits{"a": {Attempts: 0, Grace: grace, Env: map[string]string{"attempts": "3", "kill_after": "x"}}}},
		"flags":               {args: []string{"--target.a.b.kill-after=2", "--target.my_mail.launcher.env.A.b=1"}, want: map[string]*limits{"a.b": {Attempts: 0, Grace: 2 * time.Second, Env: none}, "my_mail": {Attempts: 0, Grace: grace, Env: map[string]string{"A.b": "1"}}}},
		"a flag for its file": {file: "[target a]\nattempts = 3\nkill_after = 3\n", args: []string{"--target.a.attempts", "4"}, want: map[string]*limits{"a": {Attempts: 4, Grace: 3 * time.Second, Env: none}}},
		"variables": {
			file:    "[target mail]\nattempts = 3\n",
			environ: []string{"TESTD_TARGET_mail_KILL_AFTER=1m", "TESTD_TARGET_m_x_ATTEMPTS=7", "TESTD_TARGET_mail_LAUNCHER_ENV_ATTEMPTS=x"},
			want:    map[string]*limits{"mail": {Attempts: 3, Grace: time.Minute, Env: map[string]string{"ATTEMPTS": "x"}}, "m_x": {Attempts: 7, Grace: grace, Env: none}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, got := withSections(writeFile(t, strings.TrimSuffix(test.file, "['x] # \n")))
			must.Do(t, errors.Join(set.Parse(test.args, test.environ, t.Output()), set.Err()))
			if warnings := set.Warnings(); len(warnings) > 0 {
				t.Errorf("warnings %q, want none", warnings)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSectionsThatAreWrong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file    string
		environ []string
		args    []string
		want    string
	}{
		"twice":                       {file: "[target a]\n[target b]\n[target \"a\"]\n", want: ":3: [target a]: it begins in line 1 already; allowed: each section once"},
		"an open quote":               {file: "[target \"a]\nattempts = x\n", want: `:1: a quote " is not closed; allowed: a name between two of them`},
		"text behind a quote":         {file: "[target \"a\" b]\n", want: ":1: text between the closing quote and the ]; allowed: the whole name in quotes"},
		"no name in quotes":           {file: "[target \"\"]\n", want: ":1: not a name; allowed: any text but an empty one, without = and control characters"},
		"a name with =":               {file: "[target a=b]\n", want: ":1: not a name; allowed: any text without ="},
		"a name that a family has":    {file: "[target a.launcher.env]\nattempts = 1\n", want: ":1: a name with .launcher.env in it can have no section of its own"},
		"a value":                     {file: "[target a]\nattempts = 0\n", want: `:2: target.a.attempts: "0" is not allowed; allowed: a whole number from 1 to 99`},
		"a value of a flag":           {args: []string{"--target.a.kill-after=0.5"}, want: `flag --target.a.kill-after: target.a.kill_after: "0.5" is not allowed; allowed: whole seconds, or a duration such as 90s, 10m, 1h30m or 30d, from 1s to 36500d`},
		"a value of a variable":       {environ: []string{"TESTD_TARGET_a_KILL_AFTER=1500ms"}, want: `environment TESTD_TARGET_a_KILL_AFTER: target.a.kill_after: "1500ms" is not allowed`},
		"a value beyond all bounds":   {args: []string{"--target.a.kill-after=1e10"}, want: `target.a.kill_after: "1e10" is not allowed`},
		"a name that is refused":      {file: "\n[target no a]\n", want: ":2: [target no a]: it is refused"},
		"a flag's name":               {args: []string{"--target.no a.attempts=1"}, want: "flag --target.no a.attempts: target.no a.attempts: it is refused"},
		"a line without a =":          {file: "[target a]\nattempts\n", want: ":2: a line without a = in the section [target a]; allowed: key = value"},
		"a key of the program":        {file: "[target a]\nmysql_host = x\n", want: ":2: the key mysql_host stands in the section [target a]; allowed: the place above all sections"},
		"a head that is not closed":   {file: "[target a\n", want: ":1: not a section; allowed: [name] alone in a line"},
		"a ] between backquotes":      {file: "[target `a] b`]\n", want: ":1: not a section; allowed: [name] alone in a line"},
		"text behind a head":          {file: "[target a] b\n", want: ":1: not a section; allowed: [name] alone in a line"},
		"a password in another's key": {file: "password = hunter2\n[target a]\nattempts = hunter2\n", want: ":3: target.a.attempts: its value is not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, all := withSections(writeFile(t, test.file))
			must.Do(t, set.Parse(test.args, test.environ, t.Output()))
			if all["no a"] != nil {
				set.BadSection("target", "no a", "it is refused")
			}
			err := set.Err()
			if !strings.Contains(fmt.Sprint(err), test.want) || strings.Contains(fmt.Sprint(err), "hunter2") {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if code := exit.Code(err); code != exit.Usage {
				t.Errorf("exit code %d, want %d", code, exit.Usage)
			}
		})
	}
}

func TestSectionsThatAreOdd(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file    string
		environ []string
		want    string
	}{
		"a slip":              {file: "[target a]\nattemps = 3\n", want: ":2: unknown key attemps in the section [target a] is not used; the nearest known one is attempts"},
		"another form":        {file: "[target a]\nkill-after = 3\n", want: ":2: unknown key kill-after in the section [target a] is not used; the nearest known one is kill_after"},
		"no key":              {file: "[target a]\nfoo = bar\n", want: ":2: unknown key foo in the section [target a] is not used; known ones are attempts, kill_after, launcher.env.NAME"},
		"a secret for a name": {file: "[target a]\nhunter2! = 3\n", want: ":2: unknown key in the section [target a] is not used"},
		"a key twice":         {file: "[target a]\nattempts = 3\nattempts = 4\n", want: ":3: target.a.attempts: given in line 2 too, with another value; the last one counts, delete the other"},
		"no name":             {file: "[target]\n", want: ":1: unknown section [target] is not used, nor are the lines below it; the nearest known one is [targets]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set, _ := withSections(writeFile(t, test.file))
			must.Do(t, errors.Join(set.Parse(nil, test.environ, t.Output()), set.Err()))
			said := strings.Join(set.Warnings(), "\n")
			if !strings.HasSuffix(said, test.want) && !strings.Contains(said, test.want+"\n") && !strings.Contains(said, test.want+";") || strings.Contains(said, "hunter2") {
				t.Errorf("warnings %q, want %q", said, test.want)
			}
		})
	}
}

// A secret among a section's variables is one by its own name, not by that of its section.
func TestSecretsInSections(t *testing.T) {
	t.Parallel()
	set, _ := withSections(writeFile(t, "[target password-mail]\nlauncher.env.LANG = eighty\n[target a]\nlauncher.env.API_TOKEN = hunter2\nattempts = 8hunter2\n"))
	must.Do(t, set.Parse([]string{"--port=eighty"}, nil, t.Output()))
	said := fmt.Sprint(set.Err())
	if !strings.Contains(said, `port: "eighty" is not allowed`) || !strings.Contains(said, "target.a.attempts: its value is not allowed") {
		t.Errorf("told is %s", said)
	}
}

// FuzzSections: whatever stands in a head, a flag and a variable, nothing panics, and a name in
// quotes is that name.
func FuzzSections(f *testing.F) {
	for _, name := range []string{"mail", " a]", `"`, "it's", "a.launcher.env", "a.launcher.env.b", "x=y", "\\", "a ; b", "target.a"} {
		f.Add(name, "attempts = 3")
	}
	f.Fuzz(func(t *testing.T, name, line string) {
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name)
		set, all := withSections(writeFile(t, "[target "+name+"]\n"+line+"\n[target \""+quoted+"\"]\nattempts = 3\n"))
		environ := []string{"TESTD_TARGET_" + name + "=" + line, "TESTD_TARGET_" + name + "_ATTEMPTS=2"}
		if set.Parse([]string{"--target." + name + "=x"}, environ, t.Output()) != nil && set.Parse(nil, environ, t.Output()) != nil {
			return
		}
		isName := name != "" && utf8.ValidString(name) && !strings.Contains(name, "=") && !strings.ContainsFunc(name, unicode.IsControl)
		if isName && !strings.Contains(name+".", ".launcher.env.") && all[name] == nil {
			t.Fatalf("no section %q among %v", name, all)
		}
	})
}

func readFrom(args, environ []string, file string) error {
	set, _ := newSet(file)
	if err := set.Parse(args, environ, io.Discard); err != nil {
		return err
	}
	return set.Err()
}

// Of very many warnings and mistakes the first are told, and how many more there are.
func TestManyWarningsAndMistakes(t *testing.T) {
	t.Parallel()
	var odd, wrong strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&odd, "unknown_%d = 1\n", i)
		fmt.Fprintf(&wrong, "targets.t%d = x\n", i)
	}
	set, _ := newSet(writeFile(t, odd.String()))
	must.Do(t, set.Parse(nil, nil, io.Discard))
	if told := set.Warnings(); len(told) != 51 || !strings.Contains(told[50], "950 more warnings") {
		t.Errorf("%d warnings are told, the last one: %s", len(told), told[len(told)-1])
	}
	err := readFrom(nil, nil, writeFile(t, "[targets]\n"+strings.ReplaceAll(wrong.String(), "targets.", "")))
	if text := fmt.Sprint(err); strings.Count(text, "\n") != 50 || !strings.Contains(text, "950 more mistakes") {
		t.Errorf("error of %d lines: %.200s", strings.Count(text, "\n")+1, text)
	}
}

// Words of the command line may be passwords.
func TestPasswordsOnTheCommandLineAreNotTold(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"password=Zq7SECRET"},
		{"--password=Zq7SECRET", "Zq7SECRET"},
		{"--password=hunter", "hunter"},
		{"-pZq7SECRET"},
		{"-phunter"},
		{"--Zq7SECRET"},
		{"Zq7SECRET"},
		{"--", "-pZq7SECRET"},
		{"--launcher.env.Zq7SECRET"},
	} {
		set, _ := newSet("")
		err := set.Parse(args, nil, io.Discard)
		if err == nil || exit.Code(err) != exit.Usage || strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "hunter") {
			t.Errorf("%q: %v, want exit code 2 and nothing of a password", args, err)
		}
	}
}

// A key with a dot below [target a] is that section's or nobody's: it sets nothing of a target a.b.
func TestDottedKeysOfASectionAreOfNoOther(t *testing.T) {
	t.Parallel()
	set, got := withSections(writeFile(t, "[target a]\nb.attempts = 5\nlauncher.attempts = 6\nattempts = 7\n"))
	must.Do(t, errors.Join(set.Parse(nil, nil, t.Output()), set.Err()))
	want := map[string]*limits{"a": {Attempts: 7, Grace: grace, Env: map[string]string{}}}
	if diff := cmp.Diff(want, got); diff != "" || len(set.Warnings()) != 2 {
		t.Errorf("warnings %q, (-want +got):\n%s", set.Warnings(), diff)
	}
}

// A configuration that is no regular file is refused, and not read: some never end, and of a pipe
// even the opening may not.
func TestConfigurationsThatAreNoFiles(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	must.Do(t, syscall.Mkfifo(pipe, 0o600))
	link := filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(pipe, link))
	for _, path := range []string{pipe, link, "/dev/urandom", "/dev/zero"} {
		for name, err := range map[string]error{
			"flag":     readFrom([]string{"--config", path}, nil, ""),
			"variable": readFrom(nil, []string{"TESTD_CONFIG=" + path}, ""),
			"default":  readFrom(nil, nil, path),
		} {
			if err == nil || exit.Code(err) != exit.Usage || !strings.Contains(err.Error(), "config "+path+": it is not a regular file") {
				t.Errorf("%s, %s: %v", path, name, err)
			}
		}
	}
	file := writeFile(t, "port = 7\n")
	link = filepath.Join(t.TempDir(), "link")
	must.Do(t, os.Symlink(file, link))
	for _, path := range []string{link, os.DevNull} {
		if err := readFrom([]string{"--config", path}, nil, ""); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
}
