// Package version holds the version of the three programs.
package version

// Version is what --version prints and what a worker writes into its journal.
const Version = "0.1.0"
