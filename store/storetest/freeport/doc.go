// Package freeport gives tests and the demo ports for servers that other processes start.
//
// A port that somebody has listened on and given up again may be anybody's before the server has
// it: the kernel gives it to an outgoing connection, or another test gives it to a server of its
// own. So the ports from here lie outside of those that the kernel gives away by itself, and each
// is reserved, against all processes that ask here, until the process that asked for it has ended.
package freeport
