package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"jobd/cmd/internal/exit"
	"jobd/store"
	"jobd/store/storetest/must"
)

// collated is a table that takes names for one as its collation does, and has no room for long
// ones.
type collated struct {
	store.Table
	fold func(string) string
	away error
}

func (c collated) Names(_ context.Context, names []string) (map[string]string, error) {
	unfit, seen := map[string]string{}, map[string]string{}
	for _, name := range names {
		if other, twice := seen[c.fold(name)]; twice {
			unfit[name] = "it is the same as " + other
		}
		if len(name) > 5 {
			unfit[name] = "it is too long"
		}
		seen[c.fold(name)] = name
	}
	return unfit, c.away
}

func same(name string) string { return name }

func TestFoldsAreLearnt(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		table  collated
		names  []string
		before bool
		want   bool
	}{
		"case counts":               {collated{fold: same}, []string{"a"}, false, false},
		"case counts by now":        {collated{fold: same}, []string{"a"}, true, false},
		"case does not count":       {collated{fold: strings.ToLower}, []string{"a"}, false, true},
		"the first has no letters":  {collated{fold: strings.ToLower}, []string{"1", "B"}, false, true},
		"the first is none":         {collated{fold: strings.ToLower}, []string{"toolong", "b"}, false, true},
		"no name has letters":       {collated{fold: strings.ToLower}, []string{"1", "2"}, true, true},
		"the table is away":         {collated{fold: same, away: errors.New("away")}, []string{"a"}, true, true},
		"there are no targets":      {collated{fold: strings.ToLower}, nil, false, false},
		"capitals are looked at as": {collated{fold: strings.ToLower}, []string{"A"}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &tablePart{table: test.table}
			p.folds.Store(test.before)
			news := p.learnFolds(test.names)
			if p.folds.Load() != test.want || news != (test.before != test.want) {
				t.Errorf("folds %v, news %v; want %v", p.folds.Load(), news, test.want)
			}
		})
	}
}

// Names that the table can't hold are mistakes of the configuration, told with their places; a
// table that does not answer is waited for.
func TestTargetsThatCanNotBeServed(t *testing.T) {
	t.Parallel()
	c := must.Get(fromFile(t, "[targets]\na = 1\nA = 1\ntoolong = 1\n"))(t)
	x := c.Path
	for name, test := range map[string]struct {
		reached bool
		away    error
		want    string
		code    int
	}{
		"unfit":          {true, nil, x + ":2: targets.a: \"a\" can't be served: it is the same as A\n" + x + ":4: targets.toolong: \"toolong\" can't be served: it is too long", exit.Usage},
		"not reached":    {false, nil, "<nil>", exit.Success},
		"not any longer": {true, errors.New("away"), "<nil>", exit.Success},
	} {
		p := &tablePart{table: collated{fold: strings.ToLower, away: test.away}, reached: test.reached, log: slog.New(slog.DiscardHandler)}
		if err := p.checkTargets(c); fmt.Sprint(err) != test.want || exit.Code(err) != test.code {
			t.Errorf("%s: %v with exit code %d", name, err, exit.Code(err))
		}
	}
}
