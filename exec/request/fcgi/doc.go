// Package fcgi is the record format of FastCGI, as far as one who asks needs it: one request over one
// connection, and its answer.
//
//	Request ─► BEGIN_REQUEST  PARAMS…  PARAMS(empty)  STDIN(empty)
//	Reader  ◄─ STDOUT…  STDERR…  END_REQUEST
//
// A record is a head of 8 bytes, up to 65,535 bytes of content, and up to 255 of padding:
//
//	version 1 | type | request id, 2 bytes | content's length, 2 bytes | padding's length | 0
//
// The package knows no connections and no jobs. What a peer sends is checked for being an answer to the
// one request that was sent, and nothing of it is kept beyond a record.
package fcgi
