package principal_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"jobd/net/principal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// parsed is a keeper of some lines.
func parsed(t *testing.T, lines ...string) *principal.Keeper {
	t.Helper()
	k := must.Get(principal.Parse([]byte(strings.Join(lines, "\n") + "\n")))(t)
	return k
}

// newToken makes a token.
func newToken(t *testing.T, name string) (token, credential string) {
	t.Helper()
	token, credential, err := principal.NewToken(name)
	if err != nil {
		t.Fatal(err)
	}
	return token, credential
}

// said is what a line gives; "" where there is none.
func said(l *principal.Line) string {
	if l == nil {
		return ""
	}
	return fmt.Sprint(l.Name, " ", l.Scope, " ", l.Targets, " ", l.How())
}

// The example of the manual lets in whom it names, and nobody else.
func TestWhoIsLetIn(t *testing.T) {
	t.Parallel()
	token, credential := newToken(t, "ann")
	second, secondCredential := newToken(t, "ann")
	other, otherCredential := newToken(t, "ann")
	k := parsed(t,
		"\t# name   scope     targets          credential                       options",
		"ann      admin     *                "+credential+"                 expires=2227-01-01",
		"ann      read      mail             "+secondCredential[:13]+strings.ToUpper(secondCredential[13:])+"\r",
		"",
		"shop     submit    mail,reports/*   uid:65534 # a comment",
		"root-1   run       mail             uid:root",
		"node-7   worker    mail,reports/*   cert:node-7.example.com",
		"node-8   worker    mail             cert:NODE-8 #expires=2020-01-01",
		"local    status    *                localhost",
		"guess    run       *                "+principal.Credential("hunter2"))
	check.Equal(t, k.Lines(), 8, "lines")
	for want, l := range map[string]*principal.Line{
		"ann admin * token":                        k.Token(token),
		"ann read mail token":                      k.Token(second),
		"shop submit mail,reports/* uid":           k.UID(65534),
		"root-1 run mail uid":                      k.UID(0),
		"node-7 worker mail,reports/* certificate": k.Certificate([]string{"NODE-8", "node-7.example.com"}),
		"node-8 worker mail certificate":           k.Certificate([]string{"other", "NODE-8"}),
		"local status * localhost":                 k.Localhost(),
	} {
		check.Equal(t, said(l), want)
	}
	if at := k.Token(token).Expires; !at.Equal(time.Date(2227, 1, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("it expires at %v", at)
	}
	for name, l := range map[string]*principal.Line{
		"another token": k.Token(other), "what stands for it": k.Token(otherCredential), "what stands in the file": k.Token(credential),
		"no token": k.Token("ann"), "no token, whose digest is there": k.Token("hunter2"), "nothing": k.Token(""), "a part": k.Token(token[:len(token)-1]), "more": k.Token(token + "0"),
		"another uid": k.UID(1), "an unknown uid": k.UID(-1),
		"another case": k.Certificate([]string{"NODE-7.example.com", "node-8", ""}), "no name": k.Certificate(nil),
	} {
		if l != nil {
			t.Errorf("%s is %s", name, said(l))
		}
	}
}

func TestNobodyIsLetInWithoutAFile(t *testing.T) {
	t.Parallel()
	token, _ := newToken(t, "ann")
	var k *principal.Keeper
	if k.Token(token) != nil || k.Certificate([]string{"a"}) != nil || k.UID(0) != nil || k.Localhost() != nil || k.Lines() != 0 {
		t.Error("somebody is let in")
	}
}

// What is known otherwise, as who gives the password, never ends.
func TestSessionWithoutALine(t *testing.T) {
	t.Parallel()
	stop := principal.Known("password", "password", "").OnEnd(func() { t.Error("it has ended") })
	if !stop() {
		t.Error("it can't be stopped")
	}
}

func TestExpiredLineLetsNobodyIn(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	for expires, want := range map[string]bool{
		now.Add(time.Hour).Format(time.RFC3339):                                 true,
		now.Add(time.Hour).In(time.FixedZone("", -7*3600)).Format(time.RFC3339): true,
		now.Add(-time.Second).Format(time.RFC3339):                              false,
		now.Format(time.DateOnly):                                               false,
		now.Add(48 * time.Hour).Format(time.DateOnly):                           true,
	} {
		k := parsed(t, "a run * localhost expires="+expires)
		check.Equal(t, k.Localhost() != nil, want, "expires=%s: let in is", expires)
	}
}

func TestScopes(t *testing.T) {
	t.Parallel()
	single := []principal.Scope{principal.Status, principal.Read, principal.Submit, principal.Run, principal.Admin, principal.Worker}
	for word, want := range map[string]string{
		"status": "status", "read": "status read", "submit": "submit", "run": "status read submit run",
		"admin": "status read submit run admin", "worker": "worker",
	} {
		s := must.Get(principal.ParseScope(word))(t)
		var has []string
		for _, right := range single {
			if s.Has(right) {
				has = append(has, right.String())
			}
		}
		if got := strings.Join(has, " "); got != want || s.String() != word {
			t.Errorf("%s is called %s and has %s, want %s", word, s, got, want)
		}
	}
	admin, _ := principal.ParseScope("admin")
	for want, s := range map[string]principal.Scope{
		"admin+worker": admin | principal.Worker, "submit+status": principal.Submit | principal.Status, "": 0,
	} {
		check.Equal(t, s.String(), want, "%06b is %q", s, s)
	}
	if !principal.Submit.Has(principal.Submit|principal.Read) || principal.Submit.Has(principal.Run|principal.Read) || principal.Submit.Has(0) {
		t.Error("Has is not about one of the rights")
	}
	for _, word := range []string{"", "Admin", "admin+worker", "root", "run ", "write"} {
		if s, err := principal.ParseScope(word); err == nil || !strings.Contains(err.Error(), "allowed: status, read") {
			t.Errorf("%q is %s, %v", word, s, err)
		}
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for text, reached := range map[string]string{ // of the targets below
		"*":                  "mail mail/x mailing reports reports/ reports/a reports/a/b x* Mail",
		"mail":               "mail",
		"mail,reports/*":     "mail reports/a reports/a/b",
		"reports/a/*":        "reports/a/b",
		"reports,reports/*":  "reports reports/a reports/a/b",
		"mail/,reports/":     "reports/",
		"nothing/of,the/*,x": "",
	} {
		targets, err := principal.ParseTargets(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for _, target := range []string{"mail", "mail/x", "mailing", "reports", "reports/", "reports/a", "reports/a/b", "x*", "Mail"} {
			if targets.Reach(target) {
				got = append(got, target)
			}
		}
		if strings.Join(got, " ") != reached || targets.String() != text || targets.All() != (text == "*") {
			t.Errorf("%s, as %s, reaches %q (all: %t), want %q", text, targets, got, targets.All(), reached)
		}
	}
	for _, text := range []string{"", ",", "mail,", ",mail", "*,mail", "mail,*", "mail*", "*mail", "a*b", "/*", "**", "a/**", "a*/*", "a b", "a\x00", "a\xff", "a#b", "a\u202eb"} {
		if targets, err := principal.ParseTargets(text); err == nil || !strings.Contains(err.Error(), "allowed:") {
			t.Errorf("%q is %s, %v", text, targets, err)
		}
	}
	var none principal.Targets
	if none.Reach("") || none.Reach("mail") || none.All() || none.String() != "" {
		t.Error("no targets reach some")
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	form := regexp.MustCompile(`^jobd_node_7\.a-B_[0-9A-Za-z]{49}$`)
	met := map[string]bool{}
	for range 1000 { // also those whose number is a short one
		token, credential := newToken(t, "node_7.a-B")
		if !form.MatchString(token) || !principal.IsToken(token) || met[token] || principal.Credential(token) != credential {
			t.Fatalf("%s (%s) is no token, or comes again", token, credential)
		}
		met[token] = true
	}
	for _, name := range []string{"", "password", strings.Repeat("a", 65), "a b", "a\n", "ä", "a/b", "#a"} {
		if token, _, err := principal.NewToken(name); err == nil || !strings.Contains(err.Error(), "not a name; allowed:") {
			t.Errorf("%q has the token %s, %v", name, token, err)
		}
	}
	if token, _ := newToken(t, strings.Repeat("a", 64)); !principal.IsToken(token) {
		t.Error("the longest name makes no token")
	}
	// One that was made before stays one.
	if !principal.IsToken("jobd_ann_000000000000000000000000000000000000000000z2wTwgw") {
		t.Error("an older token is none any more")
	}
	for _, token := range []string{
		"jobd_ann_000000000000000000000000000000000000000000z2wTwgx", "jobd_ann_000000000000000000000000000000000000000000y2wTwgw",
		"jobd_anm_000000000000000000000000000000000000000000z2wTwgw", "jobd_ann_000000000000000000000000000000000000000000z2wTwgw\n",
	} {
		if principal.IsToken(token) {
			t.Errorf("%q is a token", token)
		}
	}
}

// Whatever differs from a token in one place is none.
func FuzzIsToken(f *testing.F) {
	token, _, err := principal.NewToken("ann")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(token, 0, byte('x'))
	f.Add("jobd_a_b_"+token[9:], 12, byte('_'))
	f.Add("jobd__", 3, byte(0))
	f.Fuzz(func(t *testing.T, text string, at int, other byte) {
		if principal.IsToken(text) && (len(text) < 56 || len(text) > 119 || !strings.HasPrefix(text, "jobd_")) {
			t.Fatalf("%q is a token", text)
		}
		for _, token := range []string{text, token} {
			if !principal.IsToken(token) || at < 0 || at >= len(token) || token[at] == other {
				continue
			}
			if changed := token[:at] + string([]byte{other}) + token[at+1:]; principal.IsToken(changed) {
				t.Fatalf("%q is a token, and so is %q", token, changed)
			}
		}
	})
}

// A file that was cut off in its last line gives nobody more than the whole one.
func TestAFileThatIsCutOff(t *testing.T) {
	t.Parallel()
	const whole = "a run * uid:1001 expires=2020-01-01\n"
	for n := 1; n < len(whole)-1; n++ {
		if _, err := principal.Parse([]byte(whole[:n])); err == nil {
			t.Errorf("%q is taken", whole[:n])
		}
	}
}
