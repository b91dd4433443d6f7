package board

import (
	"os"
	"slices"
	"strings"
	"testing"

	"jobd/journal"
	"jobd/store/storetest/must"
)

// The table of docs/architecture.md is the one that the board goes by.
func TestTheTableOfMovesIsTheDocumentedOne(t *testing.T) {
	t.Parallel()
	page := must.Get(os.ReadFile("../../docs/architecture.md"))(t)
	_, table, found := strings.Cut(string(page), "| phase | slot |")
	if !found {
		t.Fatal("docs/architecture.md has no table of phases")
	}
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")[2:]
	if len(rows) != len(phases) {
		t.Fatalf("%d phases are documented, there are %d", len(rows), len(phases))
	}
	for p, row := range phases {
		var next []string
		for _, to := range row.next {
			next = append(next, to.String())
		}
		slot := ""
		if row.slot {
			slot = "holds"
		}
		name := row.name
		if Phase(p) == unborn {
			name = "(claim)"
		}
		cells := strings.Split(rows[p], "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if got, want := []string{cells[1], cells[2], cells[4]}, []string{name, slot, strings.Join(next, ", ")}; !slices.Equal(got, want) {
			t.Errorf("documented %q, want %q", got, want)
		}
	}
}

func TestAMoveThatIsNotInTheTableEndsTheWorker(t *testing.T) {
	t.Parallel()
	b := New(Config{Targets: map[string]int{"a": 1}})
	j := b.newJob(1, claimOfTarget("a"), 1)
	b.enqueue(j)
	defer func() {
		if why := recover(); why != "job 1 can't move from queued to running" {
			t.Errorf("it ended with %v", why)
		}
	}()
	b.move(j, Running)
}

func claimOfTarget(name string) journal.Accepted {
	return journal.Accepted{Target: name, Token: "@mark00000"}
}
