package guide

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// blocks are the pieces of code of a page that are of one language, in their order.
func blocks(t *testing.T, page, language string) (all []string) {
	t.Helper()
	text := must.Get(os.ReadFile(filepath.Join(harness.Top(), "docs", page)))(t)
	for i, part := range strings.Split(string(text), "\n```") {
		if code, ok := strings.CutPrefix(part, language+"\n"); ok && i > 0 {
			all = append(all, code+"\n")
		}
	}
	if len(all) == 0 {
		t.Fatalf("docs/%s has no block of %s: this test looks for the wrong thing", page, language)
	}
	return all
}

// statements are those of a block, in the test's own database, and for accounts of its own.
func statements(db *harness.Database, block string) (all []string) {
	block = strings.NewReplacer("application.", db.Name+".", "'@'", "_"+db.Name+"'@'").Replace(block)
	for statement := range strings.SplitSeq(block, ";\n") {
		var code []string
		for line := range strings.Lines(statement) {
			if !strings.HasPrefix(line, "--") {
				code = append(code, line)
			}
		}
		if text := strings.TrimSpace(strings.Join(code, "")); text != "" {
			all = append(all, text)
		}
	}
	return all
}

// Every statement of these pages does what it says on the table of README.md, in the order in which
// it stands there.
func TestStatementsOfThePages(t *testing.T) {
	t.Parallel()
	for _, page := range []string{"prune.md", "security.md", "stuck.md", "tune.md"} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			db := harness.NewDatabase(t)
			conn, err := db.Admin.Conn(t.Context()) // what a statement sets holds for those behind it
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for _, block := range blocks(t, page, "sql") {
				for _, statement := range statements(db, block) {
					rows, err := conn.QueryContext(t.Context(), statement)
					if err != nil {
						t.Fatalf("docs/%s: %v: %s", page, err, statement)
					}
					for rows.Next() {
					}
					if err := rows.Close(); err != nil || rows.Err() != nil {
						t.Fatalf("docs/%s: %v, %v: %s", page, err, rows.Err(), statement)
					}
				}
			}
		})
	}
}
