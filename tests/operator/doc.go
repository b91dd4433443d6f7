// Package operator is a person's work with jobctl on real daemons: in a real terminal, beside workers that hang, with the wrong
// daemon, and with rows that were not meant.
package operator
