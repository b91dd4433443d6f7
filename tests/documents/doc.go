// Package documents keeps the pages right that no compiler reads: pictures are drawn from their
// sources and from the real programs, and what stands in code blocks is taken by the shell, the
// database, and the programs that it is meant for.
package documents
