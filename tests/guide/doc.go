// Package guide runs what the pages for operators tell people to do with the jobs table: each of
// their SQL statements, and the script that deletes old rows, beside a worker that is busy.
package guide
