package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/cmd/internal/exit"
)

// Pitfall 38: no password needs to be in argv, and none is told in a warning or an error.
func TestPitfall38PasswordsStayOutOfSight(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	path := filepath.Join(t.TempDir(), "jobd.conf")
	text := "mysql_pasword = " + secret + "\npassword " + secret + "\nport = x\n[mysql_password = " + secret + "\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	environ := []string{"JOBD_PASSWORD=" + secret, "JOBD_MYSQL_PASSWORD=" + secret}
	c, err := parseConfig([]string{"--config", path}, environ, t.Output())
	if err == nil {
		t.Fatal("no error, want one")
	}
	if c.listen.password != secret || c.store.mysql.password != secret {
		t.Errorf("passwords of the environment are not taken: %+v", c)
	}
	if said := fmt.Sprint(err, c.warnings); strings.Contains(said, "= "+secret) || strings.Contains(said, `"`+secret) {
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
		if err := os.WriteFile(path, fmt.Appendf(nil, "log_level_file = info\n[targets]\na = %d\n", n), 0o600); err != nil {
			t.Fatal(err)
		}
		if c := mustParse(t, args, nil); c.targets["a"] != n || c.log.FileLevel != slog.LevelInfo {
			t.Errorf("targets %v, level %v", c.targets, c.log.FileLevel)
		}
	}
}

func TestShippedConfiguration(t *testing.T) {
	t.Parallel()
	path := filepath.Join("..", "..", "packaging", "jobd.conf")
	if c := mustParse(t, []string{"--config", path}, nil); len(c.warnings) > 0 {
		t.Errorf("warnings: %q", c.warnings)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var help strings.Builder
	if _, err := parseConfig([]string{"--help"}, nil, &help); exit.Code(err) != exit.Success {
		t.Fatal(err)
	}
	docs, err := os.ReadFile(filepath.Join("..", "..", "docs", "configuration.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keysOfHelp(help.String()) {
		if !strings.Contains(string(content), key+" = ") {
			t.Errorf("%s does not show the key %s", path, key)
		}
		if !strings.Contains(string(docs), "`"+key+"`") {
			t.Errorf("docs/configuration.md does not describe the key %s", key)
		}
	}
}

// keysOfHelp is the second column of the help's table.
func keysOfHelp(help string) []string {
	var keys []string
	for line := range strings.Lines(help) {
		fields := strings.Fields(line)
		if len(fields) > 2 && strings.HasPrefix(line, "--") && !strings.HasSuffix(fields[0], "NAME") && len(fields[1]) > 1 && fields[0] != "--config" && fields[0] != "--help" && fields[0] != "--version" {
			keys = append(keys, fields[1])
		}
	}
	return keys
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
