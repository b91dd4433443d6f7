package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
)

// The template unit gives each worker on a host a name of its own, unless its file does.
func TestEachWorkerOfTheTemplateHasAName(t *testing.T) {
	t.Parallel()
	unit := must.Get(os.ReadFile(filepath.Join("..", "..", "packaging", "systemd", "jobd@.service")))(t)
	_, setting, found := strings.Cut(string(unit), "\nEnvironment=")
	if !found {
		t.Fatal("the template sets no variable")
	}
	setting, _, _ = strings.Cut(setting, "\n")
	for _, specifier := range []string{"%H", "%i"} {
		if !strings.Contains(setting, specifier) {
			t.Errorf("%s is the same for several workers: it has no %s", setting, specifier)
		}
	}
	environ := []string{strings.NewReplacer("%H", "web", "%i", "blue").Replace(setting)}
	host := must.Get(os.Hostname())(t)
	named := filepath.Join(t.TempDir(), "jobd.conf")
	must.Do(t, os.WriteFile(named, []byte("name = mine\n"), 0o600))
	for name, test := range map[string]struct {
		args, environ []string
		want          string
	}{
		"neither":                 {leastFlags(), nil, host},
		"of the template":         {leastFlags(), environ, "web-blue"},
		"an empty one is none":    {leastFlags(), []string{"JOBD_DEFAULT_NAME="}, host},
		"the file's key wins":     {append(leastFlags(), "--config", named), environ, "mine"},
		"the variable's key wins": {leastFlags(), append(environ, "JOBD_NAME=theirs"), "theirs"},
	} {
		if c := mustParse(t, append(test.args, "--targets.a=1"), test.environ); c.name != test.want {
			t.Errorf("%s: the name is %s, want %s", name, c.name, test.want)
		}
	}
}
