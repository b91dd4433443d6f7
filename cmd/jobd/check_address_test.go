package main

import (
	"fmt"
	"strings"
	"testing"
)

// An address that is wrong is told once, as a mistake of the configuration, and never executed: that
// would tell the password that may stand in it.
func TestAWrongAddressIsNoCommand(t *testing.T) {
	t.Parallel()
	for _, launcher := range []string{"http://user:geheim@h/{id}", "fastcgi:/geheim", "ftp://user:geheim@h/{id}"} {
		c, err := fromFile(t, "[target a]\nlauncher = "+launcher+"\n", "--targets.a=1", "--launcher=/bin/echo {id}")
		if err == nil || strings.Contains(err.Error(), "user:geheim") {
			t.Errorf("%s: the configuration says %v", launcher, err)
		}
		found := c.findLaunchers(t.Context(), false)
		if text := fmt.Sprint(found); len(found) != 1 || strings.Contains(text, "geheim") {
			t.Errorf("%s: --check says %s", launcher, text)
		}
	}
}
