package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"jobd/store"
	"jobd/store/internal/rule"
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

// judgeCode warns where a return code does not fit.
func (t *Table) judgeCode(found *inspection, c column) {
	const digits = 3
	if !strings.EqualFold(c.name, "return_code") {
		return
	}
	remedy := t.modify(quote(c.name) + " smallint UNSIGNED DEFAULT NULL")
	isTiny := c.kind == "tinyint" && !strings.Contains(c.definition, "unsigned")
	isNumber := strings.HasSuffix(c.kind, "int") || c.kind == "decimal" && c.digits >= digits || c.kind == "float" || c.kind == "double"
	switch {
	case isTiny:
		found.Warn(remedy, "column return_code (%s) cannot hold codes from 128 to 255, which are left out", c.definition)
	case !isNumber && (!c.isText() || c.length < digits):
		found.Warn(remedy, "column return_code (%s) cannot hold codes from 0 to 255; they are left out", c.definition)
	case !c.nullable:
		found.Warn(remedy, "column return_code (%s) takes no NULL: a job that a signal ended gets 255", c.definition)
	}
}

// judgeSignal warns where a signal's name does not fit. Where sig is the owner column too, it is as
// long as a token.
func (t *Table) judgeSignal(found *inspection, c column) {
	const longest = len("SIGVTALRM")
	if !strings.EqualFold(c.name, store.SigColumn) || strings.EqualFold(t.config.ClaimColumn, store.SigColumn) || c.isText() && c.length >= longest {
		return
	}
	found.Warn(t.modify(quote(c.name)+" char(10) DEFAULT NULL"), "column sig (%s) cannot hold the names of all signals; they are cut or left out", c.definition)
}

// judgeOutput warns where output that jobd keeps is cut by its column, or can't be kept at all.
func (t *Table) judgeOutput(found *inspection, c column) {
	if name := strings.ToLower(c.name); name != "stdout" && name != "stderr" {
		return
	}
	most := max(t.config.MaxOutput, 1)
	if def, isLiteral := strings.CutPrefix(c.def, " DEFAULT '"); isLiteral && !found.version.mariaDB {
		c.def = " DEFAULT ('" + def + ")" // MySQL takes none but expressions for texts
	}
	switch {
	case !c.isText():
		found.Warn(t.modify(quote(c.name)+" "+outputType(c, most)+" DEFAULT NULL"), "column %s (%s) is no text: output is left out", c.name, c.definition)
	case c.length < most:
		found.Warn(t.modify(c.declared(outputType(c, most))), "column %s (%s) holds %d %s: what a job writes beyond is cut there, and not at max_output_buffer, %d bytes",
			c.name, c.definition, c.length, c.unit(), most)
	}
}

// unit is what the column's length counts.
func (c column) unit() string {
	if c.kind == "char" || c.kind == "varchar" {
		return "characters"
	}
	return "bytes"
}

// outputType is the smallest type of its sort that holds so many bytes.
func outputType(c column, bytes int) string {
	const (
		text   = 1<<16 - 1
		medium = 1<<24 - 1
	)
	kind := "text"
	if c.isBytes() {
		kind = "blob"
	}
	switch {
	case bytes <= text:
		return kind
	case bytes <= medium:
		return "medium" + kind
	}
	return "long" + kind
}

// judgePacket warns where the server takes no packet with all of the output that jobd keeps.
func (t *Table) judgePacket(found *inspection) {
	if need := 2*t.config.MaxOutput + 2*statementOverhead; t.config.MaxOutput > 0 && found.packet < need {
		found.Warn(fmt.Sprintf("SET GLOBAL max_allowed_packet = %d, and in the server's configuration", (2*need/1024+1)*1024),
			"the server's max_allowed_packet, %d bytes, is too small for stdout and stderr of max_output_buffer, %d bytes each: output is cut", found.packet, t.config.MaxOutput)
	}
}

// optionalType is how an optional column is made.
func optionalType(name string) string {
	switch name {
	case store.ColumnSchedule, store.ColumnTimeZone:
		return "varchar(64) DEFAULT NULL"
	case store.ColumnAttempts:
		return "smallint UNSIGNED NOT NULL DEFAULT 0"
	case store.ColumnMaxAttempts:
		return "smallint UNSIGNED DEFAULT NULL"
	case store.ColumnTimeout:
		return "int UNSIGNED DEFAULT NULL"
	case store.ColumnPriority:
		return "tinyint NOT NULL DEFAULT 0"
	case store.ColumnUniqueKey:
		return "varchar(190) DEFAULT NULL"
	}
	return secondsType
}

// lacks is what a table lacks for the optional columns, and one statement that mends all of it.
type lacks struct {
	table    string
	said     []string // in words
	before   []string // statements that prepare the values
	clauses  []string // of the ALTER TABLE
	indexes  bool     // only indexes are lacking
	replaced []string // columns that are made anew, so that they are gone from the indexes they were in
}

// note notes something that is lacking.
func (l *lacks) note(clause, format string, args ...any) {
	l.said = append(l.said, fmt.Sprintf(format, args...))
	l.clauses = append(l.clauses, clause)
}

// remedy is the statement, with those that have to come before it.
func (l *lacks) remedy() string {
	return strings.Join(append(l.before, "ALTER TABLE "+l.table+" "+strings.Join(l.clauses, ", ")), "; ")
}

// judgeTimes refuses a table that lacks what the optional columns need which are jobd's: a word, a
// column, a type, an index. Others are the application's, and nobody looks at them. An index that
// somebody drops under way stops claims, each of which would lock all rows of its target.
func (t *Table) judgeTimes(found *inspection, indexes map[string]index, names map[string]bool) {
	uses := found.uses
	lacking := &lacks{table: t.name.quoted()}
	if status, there := found.columns["status"]; there && uses.Delays() {
		words := store.Statuses(uses)
		if lost := status.lacks(words); len(lost) > 0 {
			lacking.note("MODIFY "+status.declared(status.withWords(words, lost)), "column status (%s) cannot hold %s", status.definition, strings.Join(lost, ", "))
		}
	}
	t.judgeOptional(found, lacking)
	lacking.indexes = len(lacking.said) == 0
	t.judgeOrders(found, lacking, indexes, names)
	switch {
	case len(lacking.said) == 0:
	case lacking.indexes && t.started.Load():
		found.Warn(lacking.remedy(), "for the columns of use_columns: %s, and nothing is claimed until it has", strings.Join(lacking.said, "; "))
		found.bare = found.List[len(found.List)-1].Advice()
	default:
		found.Fault(lacking.remedy(), "for the columns of use_columns: %s", strings.Join(lacking.said, "; "))
	}
}

// judgeOptional notes which optional columns are missing, and which hold something else.
func (t *Table) judgeOptional(found *inspection, lacking *lacks) {
	var missing []string
	for _, name := range store.TimeColumns() {
		c, there := found.columns[name]
		switch {
		case !found.uses.Has(name):
		case !there:
			missing = append(missing, name)
			lacking.clauses = append(lacking.clauses, "ADD "+quote(name)+" "+optionalType(name))
		case c.generated && slices.Contains(rule.Written("", found.uses), name):
			lacking.replace(c, optionalType(name), quote(c.name), "column %s (%s) is generated, so that nobody can write it")
		case name == store.ColumnRunAt || name == store.ColumnPlannedAt:
			t.judgeMoment(lacking, c)
		case name == store.ColumnSchedule || name == store.ColumnTimeZone:
			judgeWord(lacking, c)
		case name == store.ColumnUniqueKey:
			if !c.nullable {
				freed := c
				freed.nullable, freed.def = true, " DEFAULT NULL"
				lacking.note("MODIFY "+freed.declared(c.definition), "column %s (%s) takes no NULL, which frees the key when a job has ended", c.name, c.definition)
			}
		default:
			judgeNumber(lacking, c)
		}
	}
	if len(missing) > 0 {
		lacking.said = append(lacking.said, "it has no column "+strings.Join(missing, ", "))
	}
}

// judgeMoment notes where a column cannot hold the unix seconds of the present century, or holds
// NULL, at which nothing is ever due.
func (t *Table) judgeMoment(lacking *lacks, c column) {
	const no = "column %s (%s) cannot hold unix seconds until 2100"
	name, table := quote(c.name), t.name.quoted()
	isUnsigned := strings.Contains(c.definition, "unsigned")
	switch c.kind {
	case "int", "integer", "bigint":
		isWide := c.kind == "bigint" || isUnsigned
		if isWide && !c.nullable {
			return
		}
		kind := secondsType
		if isWide {
			kind = c.definition + " NOT NULL DEFAULT 0"
		}
		if c.nullable || !isUnsigned {
			lacking.before = append(lacking.before, "UPDATE "+table+" SET "+name+" = 0 WHERE "+name+" IS NULL OR "+name+" < 0")
		}
		if isWide {
			lacking.note("MODIFY "+name+" "+kind, "column %s (%s) takes NULL, at which no row is ever due; 0 is what it holds for no time", c.name, c.definition)
			return
		}
		lacking.note("MODIFY "+name+" "+kind, no, c.name, c.definition)
	case "tinyint", "smallint", "mediumint", "decimal", "float", "double", "bit":
		lacking.before = append(lacking.before, "UPDATE "+table+" SET "+name+" = 0 WHERE "+name+" IS NULL OR "+name+" < 0")
		lacking.note("MODIFY "+name+" "+secondsType, no, c.name, c.definition)
	default:
		value := "IF(" + name + " REGEXP '^[0-9]{1,9}$|^[1-3][0-9]{9}$', " + name + ", 0)"
		if c.kind == "datetime" || c.kind == "timestamp" || c.kind == "date" {
			value = "COALESCE(UNIX_TIMESTAMP(" + name + "), 0)"
		}
		lacking.replace(c, secondsType, value, no)
	}
}

// replace puts a column of another type in a column's place, with what an expression makes of its
// values.
func (l *lacks) replace(c column, kind, value, format string) {
	name, fresh := quote(c.name), quote("new_"+c.name)
	l.before = append(l.before, "ALTER TABLE "+l.table+" ADD "+fresh+" "+kind+" AFTER "+name, "UPDATE "+l.table+" SET "+fresh+" = "+value)
	l.replaced = append(l.replaced, strings.ToLower(c.name))
	l.note("DROP "+name+", CHANGE "+fresh+" "+name+" "+kind, format, c.name, c.definition)
}

// judgeWord notes where a column cannot hold any schedule, or any name of a zone.
func judgeWord(lacking *lacks, c column) {
	const enough = 64
	switch {
	case c.isText() && !c.isBytes() && c.length >= enough:
	case c.isText() && !c.isBytes():
		lacking.note("MODIFY "+c.declared(fmt.Sprintf("varchar(%d)", enough)), "column %s (%s) is too short; it needs %d characters", c.name, c.definition, enough)
	default:
		lacking.aside(c, "a text")
	}
}

// judgeNumber notes where a column holds no whole numbers.
func judgeNumber(lacking *lacks, c column) {
	switch c.kind {
	case "tinyint", "smallint", "mediumint", "int", "integer", "bigint":
	default:
		lacking.aside(c, "a whole number")
	}
}

// aside puts a column aside that means something else to the application, with all that it holds,
// and makes the one that jobd needs.
func (l *lacks) aside(c column, kind string) {
	l.replaced = append(l.replaced, strings.ToLower(c.name))
	l.note("CHANGE "+quote(c.name)+" "+quote("former_"+c.name)+strings.TrimPrefix(c.declared(c.definition), quote(c.name))+", ADD "+quote(c.name)+" "+optionalType(strings.ToLower(c.name)),
		"column %s (%s) is not %s (the statement names it former_%s; if the application needs it as it is, leave it out of use_columns)", c.name, c.definition, kind, c.name)
}

// judgeOrders finds the indexes that claims name, and notes which are missing.
func (t *Table) judgeOrders(found *inspection, lacking *lacks, indexes map[string]index, names map[string]bool) {
	candidates := slices.Sorted(maps.Keys(indexes))
	slices.SortStableFunc(candidates, func(a, b string) int { return indexes[a].part - indexes[b].part })
	find := func(fits func(index) bool) string {
		for _, name := range candidates {
			if one := indexes[name]; fits(one) && !slices.ContainsFunc(one.columns, func(column string) bool { return slices.Contains(lacking.replaced, column) }) {
				return name
			}
		}
		return ""
	}
	behind := indexes["PRIMARY"].columns
	if found.partitioned {
		behind = nil
	}
	add := func(name, columns string) {
		lacking.note("ADD INDEX "+free(name, names)+" ("+columns+")", "it has no index on (%s)", columns)
	}
	if found.byID = find(func(i index) bool { return i.orders("id", false, behind) }); found.byID == "" && found.ordered() {
		add("status_target_idx", found.claimColumns("id"))
	}
	if found.uses.Delays() {
		due := func(i index) bool {
			return i.begins() && len(i.columns) > 2 && i.columns[2] == store.ColumnRunAt && !i.falling[2]
		}
		if found.byDue = find(due); found.byDue == "" {
			add("status_target_run_at_idx", found.claimColumns(store.ColumnRunAt))
		}
	}
	if found.uses.Has(store.ColumnPriority) {
		if !found.version.descends() {
			lacking.indexes = false
			found.Fault("take priority out of use_columns, or use MySQL from 8.0.1 or MariaDB from 10.8",
				"column priority needs an index in descending order, which this server (%s) does not have: with an ascending one each claim would lock all rows of its target that wait", found.version)
		} else if found.byPriority = find(func(i index) bool { return i.orders(store.ColumnPriority, true, behind) }); found.byPriority == "" {
			add("status_target_priority_idx", found.claimColumns("priority DESC, id"))
		}
	}
	unique := func(i index) bool { return i.unique && slices.Contains(i.columns, store.ColumnUniqueKey) }
	if found.uses.Has(store.ColumnUniqueKey) && find(unique) == "" {
		column := quote(store.ColumnUniqueKey)
		if kind := found.columns[store.ColumnUniqueKey].kind; strings.HasSuffix(kind, "text") || strings.HasSuffix(kind, "blob") {
			column += "(190)"
		}
		lacking.note("ADD UNIQUE INDEX "+free("unique_key_idx", names)+" ("+column+")", "no index keeps the values of unique_key unique")
	}
}

// begins tells whether an index finds the rows of a status and a target.
func (i index) begins() bool {
	return len(i.columns) > 1 && slices.Contains(i.columns[:2], "status") && slices.Contains(i.columns[:2], "target")
}

// orders tells whether an index has the rows of a status and a target in the order of a column, and
// then of ids. Each index of InnoDB ends in the primary key, which comes behind it. MariaDB makes
// nothing of that where the index has the beginning of a name only, or the table has partitions: it
// reads all rows of the target, locks and sorts them.
func (i index) orders(column string, falling bool, behind []string) bool {
	if !i.begins() {
		return false
	}
	rest, down := i.columns[2:], i.falling[2:]
	if column != "id" {
		if len(rest) == 0 || rest[0] != column || down[0] != falling {
			return false
		}
		rest, down = rest[1:], down[1:]
	}
	if len(rest) == 0 {
		return i.part == 0 && len(behind) > 0 && behind[0] == "id"
	}
	return rest[0] == "id" && !down[0]
}

// examineTimes reads the indexes. Only the optional columns need some; claims do without.
func (t *Table) examineTimes(ctx context.Context, conn *sql.Conn, found *inspection) error {
	indexes, names, err := t.readIndexes(ctx, conn)
	switch {
	case err == nil:
		t.judgeTimes(found, indexes, names)
	case number(err) != 0 && !found.uses.Any():
		return nil
	}
	return err
}

// examineOptional notes what the optional columns are like. An account with grants on columns is not
// shown those that it may not use: the server tells them from missing ones.
func (t *Table) examineOptional(ctx context.Context, conn *sql.Conn, found *inspection) error {
	found.optional = map[string]column{}
	for _, name := range store.TimeColumns() {
		c, there := found.columns[name]
		switch {
		case !found.uses.Has(name):
			continue
		case there:
			found.optional[name] = c
			continue
		}
		_, err := conn.ExecContext(ctx, "SELECT "+quote(name)+" FROM "+t.name.quoted()+" WHERE 1=0")
		switch number(err) {
		case errDeniedColumn, errDeniedTable:
			return err
		case 0:
			if err != nil {
				return err
			}
		}
	}
	return nil
}
