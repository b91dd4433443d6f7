package mysql

import (
	"fmt"
	"strings"

	"jobd/store"
)

// secondsType is a column of unix seconds.
const secondsType = "int UNSIGNED NOT NULL DEFAULT 0"

// judgeWords refuses a status or a result that lacks a word.
func (t *Table) judgeWords(found *inspection, c column) {
	words := map[string][]string{
		"status": store.Statuses(t.config.Uses),
		"result": {"ok", "fail"},
	}[strings.ToLower(c.name)]
	lacking := c.lacks(words)
	if len(lacking) == 0 || strings.EqualFold(c.name, "status") && t.config.Uses.Delays() { // which judgeTimes is about
		return
	}
	found.Fault(t.modify(c.declared(c.withWords(words, lacking))), "column %s (%s) cannot hold %s; it needs '%s'",
		c.name, c.definition, strings.Join(lacking, ", "), strings.Join(words, "','"))
}

// withWords is a type that holds some words, beside what the column's type holds.
func (c column) withWords(words, lacking []string) string {
	const length = 8
	switch {
	case c.kind == "enum":
		return withWords(c.definition, lacking)
	case c.isText():
		return fmt.Sprintf("%s(%d)", c.kind, length)
	}
	return "enum('" + strings.Join(words, "','") + "')"
}

// judgeWritten refuses the times that jobd writes where they can't hold unix seconds: every claim
// would fail.
func (t *Table) judgeWritten(found *inspection, c column) {
	const enough = 10 // digits
	if name := strings.ToLower(c.name); name != "time_started" && name != "time_finished" {
		return
	}
	const no = "column %s (%s) cannot hold unix seconds, which claims and updates write into it"
	switch c.kind {
	case "int", "integer", "bigint", "double":
	case "datetime", "timestamp":
		found.Fault(t.inSeconds(c), no, c.name, c.definition)
	case "float":
		found.Warn(t.modify(quote(c.name)+" "+secondsType), "column %s (%s) holds unix seconds to the minute only", c.name, c.definition)
	case "decimal":
		if c.digits < enough {
			found.Fault(t.modify(quote(c.name)+" "+secondsType), no, c.name, c.definition)
		}
	case "tinyint", "smallint", "mediumint", "bit", "year":
		found.Fault(t.modify(quote(c.name)+" "+secondsType), no, c.name, c.definition)
	default:
		if !c.isText() || c.length < enough {
			found.Fault(t.fromText(c), no, c.name, c.definition)
			return
		}
		found.Warn(t.fromText(c), "column %s (%s) holds unix seconds as text, which sorts and compares otherwise", c.name, c.definition)
	}
}

// inSeconds is the statements that make unix seconds of a column of dates.
func (t *Table) inSeconds(c column) string {
	return t.replaced(c, secondsType, "COALESCE(UNIX_TIMESTAMP("+quote(c.name)+"), 0)", c.name+"_seconds")
}

// fromText is the statements that make unix seconds of a column of texts.
func (t *Table) fromText(c column) string {
	return t.replaced(c, secondsType, "IF("+quote(c.name)+" REGEXP '^[0-9]{1,9}$|^[1-3][0-9]{9}$', "+quote(c.name)+", 0)", c.name+"_seconds")
}

// judgeCreated warns where nobody can tell when a row was created: the application writes that
// column, jobd reads it.
func (t *Table) judgeCreated(found *inspection, c column) {
	if !strings.EqualFold(c.name, "time_created") {
		return
	}
	switch c.kind {
	case "datetime", "date", "time", "year":
		found.Warn(t.inSeconds(c),
			"column time_created (%s) is read as unknown, since its time zone is: how long jobs wait is not told, and a job that got an old id again is not known as new; the application must write unix seconds then", c.definition)
	}
}

// judgeOwner refuses an owner column that holds something else or is too short for a token, and
// warns where it is too short for the worker's name.
func (t *Table) judgeOwner(found *inspection, c column) {
	if !strings.EqualFold(c.name, t.config.ClaimColumn) {
		return
	}
	if store.IsTaken(c.name) || t.config.Uses.Has(strings.ToLower(c.name)) {
		found.TakenOwner(c.name, "ALTER TABLE "+t.name.quoted()+" ADD", tokenType())
		return
	}
	if !c.holdsToken() {
		found.Fault(t.modify(quote(c.name)+" "+tokenType()),
			"column %s (%s) cannot hold a claim's token, %d characters (or leave it as it is, and name in claim_column a column of its own for the tokens: ALTER TABLE %s ADD jobd_claim char(%[3]d) DEFAULT NULL)",
			c.name, c.definition, store.TokenLength, t.name.quoted())
		return
	}
	if worker := len([]rune(t.config.Worker)); !strings.EqualFold(c.name, store.SigColumn) && c.length < worker {
		found.Warn(t.modify(c.declared(fmt.Sprintf("varchar(%d)", worker))), "column %s (%s) is too short for this worker's name, %d characters, which is cut when a job is done",
			c.name, c.definition, worker)
	}
}

// judgeID warns of ids that may be none.
func (t *Table) judgeID(found *inspection, c column) {
	if !strings.EqualFold(c.name, "id") {
		return
	}
	switch c.kind {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint":
	default:
		found.Warn("let id be a bigint UNSIGNED AUTO_INCREMENT", "column id (%s) is no whole number: rows whose id is none, or is beyond 64 bits, are never run", c.definition)
	}
}

// judgeTarget warns of a column that takes names for numbers.
func (t *Table) judgeTarget(found *inspection, c column) {
	if !strings.EqualFold(c.name, "target") || c.isText() || c.kind == "enum" {
		return
	}
	found.Warn(t.modify(quote(c.name)+" varchar(64) NOT NULL"), "column target (%s) is no text: names are compared with it as numbers, and any name that begins with no digit is 0", c.definition)
}

// tokenType is a column of tokens.
func tokenType() string { return fmt.Sprintf("char(%d) DEFAULT NULL", store.TokenLength) }
