// Package systemd tells the service manager how a daemon stands, where its unit says Type=notify.
//
//	Begin ──► starting ──Ready──► serving ◄──Reload──► reloading
//	                                 │
//	                                 └──End──► stopping, or starting again in the same process
//
// While the daemon starts and stops it asks for more time, as long as it takes: a large journal is
// verified, jobs are waited for. While it serves, each look of the pulse that finds all loops turning
// is a sign of life for the watchdog; where one stands still there are none, and the service manager
// ends the daemon and starts it. What is outside of the daemon is in the status line, and no reason
// to be ended for: a start does not mend it.
//
// Nothing of it is on the disk. Where nobody listens, nothing is said.
package systemd
