package mysql

import (
	"slices"
	"strings"

	"jobd/store"
	"jobd/store/internal/rule"
)

// judgeColumns notes what columns can't hold of what jobd writes, and what is lost on the way.
func (t *Table) judgeColumns(found *inspection) {
	t.judgeMissing(found)
	judged := []func(*inspection, column){
		t.judgeGenerated, t.judgeWords, t.judgeWritten, t.judgeCreated, t.judgeOwner, t.judgeID, t.judgeTarget, t.judgeCode, t.judgeSignal, t.judgeOutput,
	}
	seen := map[string]bool{}
	for _, name := range append(store.Columns(), t.config.ClaimColumn) {
		name = strings.ToLower(name)
		if c, there := found.columns[name]; there && !seen[name] {
			for _, judge := range judged {
				judge(found, c)
			}
		}
		seen[name] = true
	}
}

// judgeMissing refuses a table without a column that it needs. The optional ones are for judgeTimes.
func (t *Table) judgeMissing(found *inspection) {
	missing := rule.Missing(t.config.ClaimColumn, nil, func(name string) bool { _, there := found.columns[name]; return there })
	added, after := make([]string, len(missing)), ""
	for i, name := range missing {
		added[i] = "ADD " + quote(name) + " " + typeOf(name, t.config.Uses)
		if name == "status" {
			after = "; ALTER TABLE " + t.name.quoted() + " ALTER `status` SET DEFAULT 'waiting'"
		}
	}
	if len(missing) > 0 {
		found.Fault("ALTER TABLE "+t.name.quoted()+" "+strings.Join(added, ", ")+after, "it has no column %s", strings.Join(missing, ", "))
	}
}

// typeOf is how a column that is missing is made. Rows that are there when status is added are not
// to be run. An owner column of the configuration's holds tokens and nothing else.
func typeOf(column string, uses store.Uses) string {
	switch column {
	case "id":
		return "int UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE"
	case "target":
		return "char(16) NOT NULL"
	case "time_created", "time_started", "time_finished":
		return secondsType
	case "status":
		return "enum('" + strings.Join(store.Statuses(uses), "','") + "') NOT NULL DEFAULT 'ignored'"
	case "result":
		return "enum('ok','fail') DEFAULT NULL"
	case "return_code":
		return "tinyint UNSIGNED DEFAULT NULL"
	case "stdout", "stderr":
		return "mediumtext DEFAULT NULL"
	}
	return tokenType()
}

// judgeGenerated refuses columns that the server computes, where jobd writes them.
func (t *Table) judgeGenerated(found *inspection, c column) {
	if !c.generated || !slices.ContainsFunc(rule.Written(t.config.ClaimColumn, t.config.Uses), func(name string) bool { return strings.EqualFold(name, c.name) }) {
		return
	}
	plain := "plain_" + c.name
	found.Fault(t.replaced(c, c.definition+" NULL", quote(c.name), plain),
		"column %s is generated, so that nobody can write it", c.name)
}
