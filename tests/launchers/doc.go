// Package launchers tests the loops of examples/launchers: each by itself, and as an application has
// it, with real daemons.
package launchers
