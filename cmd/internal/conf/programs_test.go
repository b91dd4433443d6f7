package conf_test

import (
	"slices"
	"testing"

	"jobd/cmd/internal/conf"
)

// Each program's own test compares its list with what it registers; no key is in two of them.
func TestKeysOfOneProgramOnly(t *testing.T) {
	t.Parallel()
	var all []string
	for _, program := range []string{"jobd", "jobd-master", "jobctl"} {
		keys := conf.ProgramKeys(program)
		if len(keys) == 0 {
			t.Errorf("no keys of %s", program)
		}
		for _, key := range keys {
			if slices.Contains(all, key) {
				t.Errorf("%s is another program's, too", key)
			}
		}
		all = append(all, keys...)
	}
}
