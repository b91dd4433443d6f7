// Package linkproxy is a bad link for tests: a TCP proxy on 127.0.0.1 that cuts connections at
// a chosen moment: after so many bytes, or around the packet that holds a chosen text, so that a
// test can lose a COMMIT before it arrives, or its answer after it did.
package linkproxy
