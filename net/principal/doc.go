// Package principal is the file of those who may ask a daemon for something: each line is a credential,
// with a name, a scope and targets.
//
//	file ──each second──► Keeper ──► lines that stay, new lines, lines that end
//	links ──Token, Certificate, UID, Localhost──► Session ──► OnEnd: the link ends
//
// A link holds the line that let it in, by its Session. A line that is the same after a change of the
// file stays the same *Line, so its links live on. A file that can't be used leaves the lines as they
// were.
//
// Nothing is written, so nothing is lost when the process dies. What an editor or a full disk leaves
// may be half a file: it is used when two looks have found it unchanged. Messages give the number of a
// line and nothing that stands in it: that may be a secret in a wrong place.
package principal
