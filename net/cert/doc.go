// Package cert makes TLS of PEM files: what a server shows and whom a client trusts.
//
// A server's files are read again when they change, so that a certificate is renewed without a
// restart; files that can't be read, or don't fit each other, leave the former ones in use, and are
// told. A client reads its files for each connection.
//
// TLS is 1.2 or 1.3, with what Go offers by itself. There are no session tickets: a link lives long,
// and a ticket would outlive the key that made it.
package cert
