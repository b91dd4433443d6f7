package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
)

// damageEvent changes a byte of an event in a journal of oneDay's.
func damageEvent(t *testing.T, dir, within string) {
	t.Helper()
	path := filepath.Join(dir, "segment-00000001.db")
	content := must.Get(os.ReadFile(path))(t)
	at := bytes.LastIndex(content, []byte(within))
	if at < 0 {
		t.Fatalf("%q is not in the journal", within)
	}
	content[at] ^= 1
	must.Do(t, os.WriteFile(path, content, 0o600))
}

// The newest events of a damaged journal are the newest that can be read, and the damage is told.
func TestNewestEventsOfADamagedJournal(t *testing.T) {
	t.Parallel()
	all := strings.SplitAfter(wholeLog, "\n")
	for name, test := range map[string]struct {
		damaged []string
		n       string
		want    []string
		told    string // where the damage begins; "" where nothing that was wanted is damaged
	}{
		"behind it":          {[]string{"@tokenseve"}, "2", all[15:17], ""},
		"just behind it":     {[]string{"10.0.0.9:4001"}, "1", all[16:17], ""},
		"one of three":       {[]string{"claim was lost"}, "3", all[15:17], "event 15"},
		"in their middle":    {[]string{"claim was lost"}, "5", append(append([]string{}, all[12:14]...), all[15:17]...), "event 15"},
		"all, and one more":  {[]string{`"a","b"`, `"a","concurrency"`}, "2", all[13:15], "event 16"},
		"the newest of them": {[]string{`"a","concurrency"`}, "1", all[15:16], "event 17"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := oneDay(t)
			for _, within := range test.damaged {
				damageEvent(t, dir, within)
			}
			got := jobctl{}.run(t, "journal", "log", "--journal", dir, "-n", test.n)
			if got.out != strings.Join(test.want, "") {
				t.Errorf("stdout:\n%s\nwant:\n%s", got.out, strings.Join(test.want, ""))
			}
			if test.told == "" && got.err != "" || !strings.Contains(got.err, test.told) || (got.code == 0) != (test.told == "") {
				t.Errorf("exit code %d, stderr %q; want it to tell of damage at %q", got.code, got.err, test.told)
			}
		})
	}
}

// What is told as the newest of a job is that, whatever was damaged before.
func TestTheNewestOfAJobBehindDamage(t *testing.T) {
	t.Parallel()
	whole, damaged := oneDay(t), oneDay(t)
	want := jobctl{}.run(t, "why", "6", "--journal", whole)
	damageEvent(t, damaged, "10.0.0.9:4000") // which was a signal to it
	got := jobctl{}.run(t, "why", "6", "--journal", damaged)
	if !strings.Contains(want.out, "SIGTERM") || got.out != want.out || got.code == 0 || !strings.Contains(got.err, "event 9") {
		t.Errorf("%+v, want the sentence of %+v and the damage", got, want)
	}
}
