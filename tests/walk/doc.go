// Package walk goes the ways of somebody who meets jobd for the first time, on a small Debian that has
// never seen it: the commands of README.md as they stand there, and the way from the package to a
// watched service with jobs from an application.
//
// The Debian is a folder (tools/fresh-root.sh), used through an overlay that is thrown away, in
// namespaces of its own: its ports, processes and files are nobody else's. It has no init, so that
// testdata/systemctl does what units say.
package walk
