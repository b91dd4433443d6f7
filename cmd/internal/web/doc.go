// Package web is where a daemon tells of itself over HTTP: /metrics, /healthz and /readyz. It is a
// front beside the TCP port, and shares nothing with it. It only tells: no request changes
// anything, so that it does not matter whose it is (docs/monitoring.md has the answers).
//
// Every request is bounded: in the time and the bytes of its head, in the time of its answer, and
// in how many there are at once. It keeps nothing on disk but a unix socket's name (package socket).
package web
