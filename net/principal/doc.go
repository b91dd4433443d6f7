// Package principal is the file of those who may ask a daemon for something: a line is a credential
// (a token's digest, the name in a certificate, an account of the host, or the host itself) with a
// name, a scope and targets.
//
//	file ──each second──► Keeper.look ──changed──► parse ──► lines that stay, new ones, ended ones
//	                                                           │                        │
//	links ──Token, Certificate, UID, Localhost──► *Line ◄──────┘      Line.Done ◄───────┘
//
// A link holds the line that let it in, and ends when that does: when the line is removed or changed,
// or expires. A file that can't be used leaves the lines as they were, and is told; a line that is the
// same before and after stays the same *Line, so its links live on.
//
// Nothing is written, so nothing is lost when the process dies. A full disk or an editor may leave a
// file that is half written: it is used only after two looks have found it the same.
//
// Messages name a line by its number and never say what stands in it: that may be a secret that
// somebody put in the wrong place.
package principal
