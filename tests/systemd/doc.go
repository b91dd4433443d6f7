// Package systemd is a service manager for real daemons: it listens to what they say of themselves on
// a socket as systemd's is, and ends those that give no sign of life. What is shipped for the real one
// is verified by its own tools, and run by a real one, which is booted beside this machine's own.
package systemd
