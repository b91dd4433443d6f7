// Package refusal gives the daemons what they must not take: wrong configurations, tables and
// accounts that cannot work, launchers and folders that do not exist, and peers that send
// garbage. Each must end in an error that says what to do, and harm nobody else.
package refusal
