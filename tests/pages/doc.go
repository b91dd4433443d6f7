// Package pages runs the commands that docs/jobctl.md shows, on real daemons in a real terminal of 80
// columns, and compares what they print with the page: documents drift, and this one must not. With
// -update the page gets what the commands print now.
package pages
