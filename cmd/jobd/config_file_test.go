package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"jobd/cmd/internal/conf"
	"jobd/cmd/internal/exit"
	"jobd/store/storetest/must"
)

// Pitfall 38: no password needs to be in argv, and none is told in a warning or an error.
func TestPitfall38PasswordsStayOutOfSight(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	path := filepath.Join(t.TempDir(), "jobd.conf")
	text := "mysql_pasword = " + secret + "\npassword " + secret + "\nport = x\n[mysql_password = " + secret + "\n"
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	environ := []string{"JOBD_PASSWORD=" + secret, "JOBD_MYSQL_PASSWORD=" + secret}
	c, err := parseConfig([]string{"--config", path}, environ, t.Output())
	if err == nil {
		t.Fatal("no error, want one")
	}
	if c.Listen.Password != secret || c.store.mysql.Password != secret {
		t.Errorf("passwords of the environment are not taken: %+v", c)
	}
	if said := fmt.Sprint(err, c.Warnings); strings.Contains(said, "= "+secret) || strings.Contains(said, `"`+secret) {
		t.Errorf("a password is told:\n%s", said)
	}
	for _, variable := range c.launcher.env {
		if strings.Contains(variable, secret) {
			t.Errorf("a job would get %s", variable)
		}
	}
}

// On SIGHUP the file is read again: the same flags and environment give what it says now.
func TestConfigReadAgain(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "jobd.conf")
	args := append(leastFlags(), "--config", path)
	for _, n := range []int{3, 5} {
		must.Do(t, os.WriteFile(path, fmt.Appendf(nil, "log_level_file = info\n[targets]\na = %d\n", n), 0o600))
		if c := mustParse(t, args, nil); c.targets["a"] != n || c.Log.FileLevel != slog.LevelInfo {
			t.Errorf("targets %v, level %v", c.targets, c.Log.FileLevel)
		}
	}
}

func TestShippedConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "packaging", "jobd.conf")
	if c := mustParse(t, []string{"--config", installed(t, path)}, nil); len(c.Warnings) > 0 {
		t.Errorf("warnings: %q", c.Warnings)
	}
	content := must.Get(os.ReadFile(path))(t)
	commented(t, string(content))
	var help strings.Builder
	if _, err := parseConfig([]string{"--help"}, nil, &help); exit.Code(err) != exit.Success {
		t.Fatal(err)
	}
	docs := must.Get(os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md")))(t)
	for _, key := range append(keysOfHelp(help.String()), keysOfTargets()...) {
		if !strings.Contains(string(content), key+" = ") {
			t.Errorf("%s does not show the key %s", path, key)
		}
		if !strings.Contains(string(docs), "`"+key+"`") {
			t.Errorf("docs/configuration.md does not describe the key %s", key)
		}
	}
}

// commented has everything read that the shipped file shows behind a ;, too, but for the keys of
// another store, and those of which one of two is allowed.
func commented(t *testing.T, content string) {
	t.Helper()
	example := regexp.MustCompile(`(?m)^; (\[target |[a-z_./]+(\.env\.[A-Z_]+)? = )`)
	content = example.ReplaceAllString(content, "$1")
	for _, own := range []string{"store = sqlite", "sqlite_path", "name = the", "launcher.cwd = /srv", "journal_archive_dir", "log_file", "password_file", "mysql_password_file", "launcher_secret_file"} {
		content = strings.ReplaceAll(content, "\n"+own, "\n; "+own)
	}
	path := filepath.Join(t.TempDir(), "jobd.conf")
	must.Do(t, os.WriteFile(path, []byte(content), 0o600))
	if c := mustParse(t, []string{"--config", path}, nil); len(c.Warnings) > 0 || len(c.sections) == 0 || !again(c.time.uses) {
		t.Errorf("warnings %q, sections %v, columns %v", c.Warnings, c.sections, c.time.uses)
	}
}

// keysOfTargets are the keys of a target's section.
func keysOfTargets() (keys []string) {
	set := conf.New(about())
	new(config).Register(set)
	for _, key := range set.Keys() {
		if name, found := strings.CutPrefix(key.Name, "[target NAME] "); found && !strings.HasSuffix(name, "NAME") {
			keys = append(keys, name)
		}
	}
	return keys
}

// keysOfHelp is the keys whose flags the help lists.
func keysOfHelp(help string) []string {
	var keys []string
	flagsAlone := []string{"config", "check", "help", "version", "verbose"}
	for line := range strings.Lines(help) {
		flag, isFlag := strings.CutPrefix(line, "  --")
		flag, _, _ = strings.Cut(flag, " ")
		if isFlag && !strings.Contains(flag, "NAME") && !slices.Contains(flagsAlone, flag) {
			keys = append(keys, strings.ReplaceAll(flag, "-", "_"))
		}
	}
	return keys
}

func TestHelpListsCheck(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	_, _ = parseConfig([]string{"--help"}, nil, &out)
	if !strings.Contains(out.String(), "\n  --check ") {
		t.Errorf("--help does not list --check:\n%s", out.String())
	}
}

func TestVersionAlone(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	_, err := parseConfig([]string{"--version"}, nil, &out)
	if exit.Code(err) != exit.Success || err == nil {
		t.Errorf("error %v", err)
	}
	var major, minor, patch int
	if n, _ := fmt.Sscanf(out.String(), "%d.%d.%d\n", &major, &minor, &patch); n != 3 {
		t.Errorf("printed %q, want a version alone", out.String())
	}
}

// What was hardly meant is taken as ever, and told with its line; what never worked is refused.
func TestConfigOddValues(t *testing.T) {
	t.Parallel()
	const least = "port = 0\nlauncher = run {id}\nstore = sqlite\nsqlite_path = x\nhost = "
	const server = "host = ::1\nport = 0\nlauncher = run {id}\nmysql_user = u\nmysql_password = x\nmysql_database = d\nmysql_port = 3306\n"
	for name, test := range map[string]struct{ text, warning, problem string }{
		"open to all":                    {text: least + "0.0.0.0", warning: ":5: host: it listens beyond this host, and there is no password"},
		"open to all, by IPv6":           {text: least + "[::]", warning: ":5: host: it listens beyond this host"},
		"open to all, by name":           {text: least + "web-1", warning: ":5: host: it listens beyond this host"},
		"open, with a long password":     {text: least + "::\npassword = sixteen-letters!"},
		"open, with a short password":    {text: least + "::\npassword = fifteen-letters", warning: ":6: password: it has fewer than 16 characters, and others reach the port"},
		"a short password for this host": {text: least + "127.0.0.1\npassword = x"},
		"open to this host":              {text: least + "127.1.2.3"},
		"open to this host, by IPv6":     {text: least + "::1"},
		"open to this host, by name":     {text: least + "localhost"},
		"host with a port":               {text: least + "127.0.0.1:7080", problem: `:5: host: "127.0.0.1:7080" is not allowed; allowed is one name or address; a port belongs to the key port`},
		"mysql_host with a port":         {text: server + "mysql_host = db:3306", problem: `:8: mysql_host: "db:3306" is not allowed; allowed is one name or address; a port belongs to the key mysql_port`},
		"mysql_host as a URL":            {text: server + "mysql_host = mysql://u:hunter2@db/x", problem: `:8: mysql_host: its value is not allowed`},
		"mysql_host by IPv6":             {text: server + "mysql_host = [::1]"},
		"mysql_host as a socket":         {text: server + "mysql_host = /run/mysqld/mysqld.sock"},
		"another store's key":            {text: server + "mysql_host = db\nsqlite_path = x", warning: ":9: sqlite_path: it is not used"},
		"a master twice":                 {text: least + "::1\nmaster_port = 1\nmaster_host = a, b, a:1", warning: `:7: master_host: "a:1" stands there twice`},
		"masters with blanks only":       {text: least + "::1\nmaster_port = 1\nmaster_host = a b", warning: ":7: master_host: one of its names is not used, being neither a name nor an address"},
		"a master with a password in it": {text: least + "::1\nmaster_port = 1\nmaster_host = u:hunter2@b:1", warning: ":7: master_host: one of its names is not used"},
		"so many jobs":                   {text: least + "::1\n[targets]\nb = 1000000", warning: ":7: targets.b: 1000000 jobs may run at once"},
		"retention in bare days":         {text: least + "::1\njournal_retention = 30", warning: ":6: journal_retention: history is gone after 30s; a number without a unit is seconds, 30d are days"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "jobd.conf")
			must.Do(t, os.WriteFile(path, []byte(test.text), 0o600))
			c, err := parseConfig([]string{"--config", path, "--targets.a=1"}, nil, t.Output())
			problem, warning := fmt.Sprint(err), strings.Join(c.Warnings, "\n")
			if err == nil {
				problem = ""
			}
			if test.problem != "" && !strings.Contains(problem, path+test.problem) || test.problem == "" && problem != "" {
				t.Errorf("error %q, want %q", problem, test.problem)
			}
			if test.warning != "" && !strings.Contains(warning, path+test.warning) || test.problem == "" && test.warning == "" && warning != "" {
				t.Errorf("warnings %q, want %q", warning, test.warning)
			}
			if strings.Contains(problem+warning, "hunter2") {
				t.Errorf("a password is told: %s %s", problem, warning)
			}
		})
	}
}
