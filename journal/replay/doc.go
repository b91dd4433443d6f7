// Package replay reads a journal's history: selected events, jobs and states as of any time, from a
// folder, an archive or a copy, also while a worker in another process writes it.
//
// A Reader checks what it reads: that events are what their hashes were made of, that nothing is
// missing between them, that segments go on from each other, and that the history ends where the
// head file says. It ends at the first thing that does not fit; what it gave before that is sound.
// What lies before what it needs, in older segments, it does not touch. That the beginning of a
// history is missing, or all of it was rewritten, only package verify tells.
//
// # The crash argument
//
// Nothing here is written, so nothing can be left half done. A reader that dies holds no lock that
// outlives it. It holds a few pages in memory, and no file between two calls, unless its folder keeps
// connections (archive.Folder.Keep); a statement that it runs in the newest database is short, so that
// the writer's log does not grow behind it.
package replay
