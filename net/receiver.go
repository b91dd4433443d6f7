package net

import (
	"time"
)

// receiver is what a link knows of the bytes that come in.
type receiver struct {
	in         splitter
	begun      time.Time // when the frame that is not complete began; zero where there is none
	deadline   time.Time // set on the connection
	held       held
	recognised bool   // the peer speaks this protocol
	looked     int    // bytes of its first frame that were looked at for that
	complaint  string // what the peer last said that belongs to no request
}
