package master

import (
	"context"
	"net/netip"

	jobnet "jobd/net"
)

// ownLink marks the context of requests that came over a link which an agent opened to its master.
type ownLink struct{}

// Asker names the one who asks a worker for something: the peer's address, or, over the link that
// the worker's agent opened to its master, the client that the master names in the field by. A
// master that names nobody, as the original does, is named itself. From all others by is no more
// than a field that nobody reads: a client must not speak for somebody else.
func Asker(ctx context.Context, link *jobnet.Link, request jobnet.Request) string {
	peer := link.RemoteAddr().String()
	if ctx.Value(ownLink{}) == nil {
		return peer
	}
	by, _ := request.Fields().Text("by")
	client, err := netip.ParseAddrPort(by)
	if err != nil {
		return "master " + peer
	}
	client = netip.AddrPortFrom(client.Addr().WithZone(""), client.Port()) // a zone may be any text
	return client.String() + " via master " + peer
}

// overOwnLink has handlers know that their requests come from the master that the agent chose.
func overOwnLink(handlers map[string]jobnet.Handler) map[string]jobnet.Handler {
	own := make(map[string]jobnet.Handler, len(handlers))
	for typ, handler := range handlers {
		own[typ] = func(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
			return handler(context.WithValue(ctx, ownLink{}, true), link, request)
		}
	}
	return own
}
