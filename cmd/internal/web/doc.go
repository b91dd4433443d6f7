// Package web is where a daemon answers over HTTP: /metrics, /healthz and /readyz, sign-in, and what stands before
// a page, which other packages draw. It is a front beside the TCP port, and judges who comes as that does: by
// the same guard.
//
//	conn ──► first byte: TLS? ──► bound ──► front ──► who asks ──► the page
//	                                          └──► /metrics, /healthz, /readyz
//
// A page asks its own daemon as a client does, see jobdaemon.Server.As: the one gate judges what it asks for.
//
// Every request is bounded: in the time and the bytes of its head and form, in the time of its answer, and
// in how many there are at once; streams only in their number. It keeps a unix socket's name (package socket) and
// the key of its cookies (cookie.go, with the crash argument) on disk.
package web
