// Package demo runs what make demo runs, on both stores: it must end well, and show what somebody
// who tries jobd is to see.
package demo
