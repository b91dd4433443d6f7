// Package packages tests what is published: that make package makes the same bytes wherever and
// whenever, what is in them, and that they can be installed, upgraded and taken away again without a
// trace, beside a job that runs.
//
// The packages are installed in a Debian of their own (tools/fresh-root.sh), below an overlay and in
// namespaces that end with the test: this machine keeps nothing of it. What happens there are the
// scripts in testdata; the first command that fails ends them, and all that they did is told.
package packages
