package mysql

import (
	"testing"

	"jobd/store/internal/rule"
	"jobd/store/storetest/must"
)

func TestLockingByVersion(t *testing.T) { // pitfall 3
	t.Parallel()
	const skip, plain = "FOR UPDATE SKIP LOCKED", "FOR UPDATE"
	cases := []struct {
		version  string
		want     string
		descends bool // it has indexes in descending order, which priorities need
	}{
		{"5.7.44-log", plain, false},
		{"8.0.0-dmr", plain, false},
		{"8.0.1-dmr", skip, true},
		{"8.0.36-0ubuntu0.22.04.1", skip, true},
		{"9.7.4-2", skip, true},
		{"10.2.44-MariaDB", plain, false},
		{"10.5.29-MariaDB", plain, false},
		{"10.6.0-MariaDB", skip, false},
		{"10.7.8-MariaDB", skip, false},
		{"10.8.3-MariaDB", skip, true},
		{"10.11.6-MariaDB-0+deb12u1-log", skip, true},
		{"12.1.2-mariadb", skip, true},
	}
	for _, c := range cases {
		t.Run(c.version, func(t *testing.T) {
			t.Parallel()
			v := must.Get(parseVersion(c.version))(t)
			if got := v.locking(); got != c.want || v.descends() != c.descends {
				t.Errorf("locking clause %q, want %q; indexes in descending order: %t", got, c.want, v.descends())
			}
		})
	}
	for _, refused := range []string{"tomorrow", "5.6.51", "5.5.68-MariaDB", "5.7.25-TiDB-v7.1.0", "8.0.11-TiDB-v7.5.0"} { // pitfall 47
		_, err := parseVersion(refused)
		if fault, certain := sortError(err); fault != rule.Unusable || !certain {
			t.Errorf("version %s: %v; want an unusable table", refused, err)
		}
	}
}

func TestDriverConfiguration(t *testing.T) { // pitfalls 6, 7, 8, 13, 14, 16 and 17
	t.Parallel()
	config := Config{Host: "::1", User: "u", Password: `p@ss/word?:"`, Database: "d"}.withDefaults()
	got := config.driver()
	switch {
	case got.Addr != "[::1]:3306", got.Passwd != config.Password:
		t.Errorf("address %q or password are not as configured", got.Addr)
	case got.Timeout <= 0:
		t.Error("a dial may take for ever")
	case got.ReadTimeout <= 30e9, got.WriteTimeout <= 30e9:
		t.Error("we give up before the server does")
	case got.RejectReadOnly:
		t.Error("the driver takes a trigger's error for a server that takes no writes")
	case !got.ClientFoundRows, !got.InterpolateParams, !got.MultiStatements, !got.CheckConnLiveness:
		t.Errorf("an option is missing: %+v", got)
	}
}
