package journal_test

import (
	"reflect"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
)

// Every payload that says who asked is found by who that was.
func TestWhoAskedIsKnownOfEveryKind(t *testing.T) {
	t.Parallel()
	for _, kind := range journal.Kinds() {
		payload := must.Get(journal.DecodePayload(kind, []byte(`{"by":"10.0.0.5:4711"}`), nil, nil))(t)
		_, has := reflect.TypeOf(payload).FieldByName("By")
		check.Equal(t, (journal.Filter{By: "10.0.0.5"}).Says(payload), has, "%s: is it found by who asked", kind)
	}
}

func TestAFilterForResultAndWhoAsked(t *testing.T) {
	t.Parallel()
	ok, failed := journal.Done{Result: "ok"}, journal.Done{Result: "fail"}
	by := func(text string) journal.Payload { return journal.Signal{By: text} }
	for _, c := range []struct {
		filter  journal.Filter
		payload journal.Payload
		want    bool
	}{
		{journal.Filter{}, ok, true},
		{journal.Filter{Result: "fail"}, failed, true},
		{journal.Filter{Result: "fail"}, ok, false},
		{journal.Filter{Result: "fail"}, by("me"), false},
		{journal.Filter{By: "10.0.0.5"}, by("10.0.0.5:4711"), true},
		{journal.Filter{By: "10.0.0.5"}, by("10.0.0.5:4711 via master 10.0.0.1:7081"), true},
		{journal.Filter{By: "10.0.0.1"}, by("10.0.0.5:4711 via master 10.0.0.1:7081"), true},
		{journal.Filter{By: "10.0.0.5"}, by("10.0.0.50:4711"), false},
		{journal.Filter{By: "10.0.0.5"}, by("110.0.0.5:4711"), false},
		{journal.Filter{By: "10.0.0.5"}, by("110.0.0.5:1 via master 10.0.0.5:2"), true},
		{journal.Filter{By: "10.0."}, by("10.0.0.50:4711"), true},
		{journal.Filter{By: "10.0.0.5:4711"}, by("10.0.0.5:4711"), true},
		{journal.Filter{By: "ann"}, by("ann (token, 10.0.0.5:41234)"), true},
		{journal.Filter{By: "ann (token, 10.0.0.5:41234)"}, by("ann (token, 10.0.0.5:41234)"), true},
		{journal.Filter{By: "10.0.0.5"}, by("ann (token, 10.0.0.5:41234)"), true},
		{journal.Filter{By: "ann"}, by("ann-2 (token, 10.0.0.5:41234)"), false},
		{journal.Filter{By: "ann"}, by("jo_ann (token, 10.0.0.5:41234)"), false},
		{journal.Filter{By: "ann"}, by("joann (token, 10.0.0.5:41234)"), false},
		{journal.Filter{By: "ann"}, by("ann (token, 10.0.0.5:41234) via master 10.0.0.1:7081"), true},
		{journal.Filter{By: "SIGHUP"}, journal.Reloaded{By: "SIGHUP"}, true},
		{journal.Filter{By: "me"}, ok, false},
		{journal.Filter{By: "me"}, journal.Signal{}, false},
	} {
		check.Equal(t, c.filter.Says(c.payload), c.want, "%+v of %+v", c.filter, c.payload)
	}
}

// A journal of a newer version may have kinds that this one does not know: the error that it can't be
// read says that nothing may be broken.
func TestAKindOfANewerVersion(t *testing.T) {
	t.Parallel()
	if _, err := journal.DecodePayload("promoted", []byte("{}"), nil, nil); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("got %v", err)
	}
}
