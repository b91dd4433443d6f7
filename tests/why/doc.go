// Package why shows that jobctl's why and show tell where a job is, whatever keeps it there: each
// reason is made on real daemons and a real server, and what is asked changes nothing.
package why
