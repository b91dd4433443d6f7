// Package browser tests the page in Debian's Chromium: that each screen can be read on a telephone and on a
// wall, by keyboard, by those who see badly and without a script, and that nothing that jobs write gets to be
// more than text. make test-browser runs it; it needs chromium, and axe-core, which that target fetches.
package browser
