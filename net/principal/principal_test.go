package principal_test

import (
	"testing"
	"time"

	"jobd/net/principal"
)

// The example of the manual, and who is let in by it.
func TestExample(t *testing.T) {
	t.Parallel()
	token, credential, err := principal.NewToken("ann")
	if err != nil {
		t.Fatal(err)
	}
	k, err := principal.Parse([]byte(`
# name   scope     targets          credential                       options
ann      admin     *                ` + credential + `                 expires=2227-01-01
shop     submit    mail,reports/*   uid:65534
node-7   worker    mail,reports/*   cert:node-7.example.com   # a comment
prom     status    *                localhost
`))
	if err != nil {
		t.Fatal(err)
	}
	for want, l := range map[string]*principal.Line{
		"ann admin * token":                        k.Token(token),
		"shop submit mail,reports/* uid":           k.UID(65534),
		"node-7 worker mail,reports/* certificate": k.Certificate([]string{"other", "node-7.example.com"}),
		"prom status * localhost":                  k.Localhost(),
	} {
		if l == nil {
			t.Errorf("no line, want %s", want)
		} else if got := l.Name + " " + l.Scope.String() + " " + l.Targets.String() + " " + l.How; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if at := k.Token(token).Expires; !at.Equal(time.Date(2227, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("it expires at %v", at)
	}
	other, _, _ := principal.NewToken("ann")
	for name, l := range map[string]*principal.Line{
		"another token": k.Token(other), "no token": k.Token("ann"), "its credential": k.Token(credential), "another uid": k.UID(1), "an unknown uid": k.UID(-1),
		"another certificate": k.Certificate([]string{"NODE-7.example.com", ""}), "nobody's": (*principal.Keeper)(nil).Token(token),
	} {
		if l != nil {
			t.Errorf("%s is %s", name, l.Name)
		}
	}
}
