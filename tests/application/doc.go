// Package application is an existing application that changes from the original to jobd: its
// rows, its old configuration file, its launcher that looks at its own row, its client that
// reads whole responses, and whatever its jobs write must work unchanged.
package application
