// Package gearman tests jobd as the programs written for gearmand see it.
//
// testdata/gearman has what gearmand answers, one scenario a file: who sends which packet or line, and
// what comes back. play_test.go plays such a file against any server, and gives it with what that server
// answered; conformance_test.go has gearmand and jobd answer them, and a table of the differences that
// jobd wants. With JOBD_RECORD=1, TestGearmand writes the files anew.
//
// peers_test.go has clients and workers of other people's libraries pass jobs to each other; crash_test.go
// kills daemons and workers while jobs come and go.
package gearman
