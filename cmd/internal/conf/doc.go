// Package conf reads the configuration of a program: flags, environment, an
// INI file and defaults, in this order of precedence.
//
// A program declares its keys in a table, a [Set]: each once, with a default, a meaning, a [Decode]
// that checks a value and fills a field, and what else counts for it (see [Setting]). The file, flags,
// variables, --help, manual pages and a reload all go by this table. A key is a flag
// (mysql_host: --mysql-host), an environment variable (JOBD_MYSQL_HOST) and a
// key of the file. One with NAME in it stands for many: launcher.env.NAME, the lines of [targets], the
// keys of [target NAME].
//
// Values are kept as text until all sources are read, then decoded together, so
// that all mistakes are told at once. Each is told with its place: file and
// line, variable or flag, and with what is allowed instead. An unknown key of the file is
// a warning, an unknown flag an error, and unknown variables of the
// environment are nobody's business. Values of keys are never logged, and appear in an error only
// where they are what is wrong; no password does, under whatever key it was given.
//
// The files are those of the original jobd: comments from ; or #, also after a
// value; values in quotes; dotted keys stay flat; names in [targets] may hold / and :, and
// spaces at their ends where they are in quotes. Each stands there once.
package conf
