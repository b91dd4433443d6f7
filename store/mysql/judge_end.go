package mysql

import (
	"fmt"
	"strings"

	"jobd/store"
)

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
