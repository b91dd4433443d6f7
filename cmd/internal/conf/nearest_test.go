package conf_test

import (
	"testing"

	"jobd/cmd/internal/conf"
)

func TestNearestNames(t *testing.T) {
	t.Parallel()
	known := []string{"mail", "Pictures", "b"}
	for name, want := range map[string]string{"mial": "mail", "MAIL": "mail", "pictures ": "Pictures", "picture": "Pictures", "x": "", "video": "", "": ""} {
		if got := conf.Nearest(name, known); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
