package net

import "net/netip"

// Caller is who asks for something. It is a plain value: what acts on a request needs to know no
// more of the connection over which it came.
type Caller struct {
	Client string // its address, host:port; "" where a master names nobody
	Master string // the address of the master over which it asks; "" where it asks by itself
}

// String names the caller as the journal does.
func (c Caller) String() string {
	switch {
	case c.Master == "":
		return c.Client
	case c.Client == "":
		return "master " + c.Master
	}
	return c.Client + " via master " + c.Master
}

// Caller is who sent a request over this link: the peer, or, where the link is one to a master that
// we chose (see LinkConfig), the client that the request's data names in the field by. A master
// that names nobody, as the original does, is named itself. Of all other peers the field is not
// read: a client must not speak for somebody else.
func (l *Link) Caller(data Fields) Caller {
	peer := l.conn.RemoteAddr().String()
	if !l.config.PeerIsMaster {
		return Caller{Client: peer}
	}
	by, _ := data.Text("by")
	client, err := netip.ParseAddrPort(by)
	if err != nil {
		return Caller{Master: peer}
	}
	client = netip.AddrPortFrom(client.Addr().WithZone(""), client.Port()) // a zone may be any text
	return Caller{Client: client.String(), Master: peer}
}
