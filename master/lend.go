package master

import (
	"context"
	"time"

	jobnet "jobd/net"
	"jobd/net/contract"
)

var errNotRegistered = jobnet.Refusal("only a registered worker is lent a share of a rate").With(jobnet.CodeInvalid)

// lend answers lend, which only workers ask.
func (m *Master) lend(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	w := m.registry.over(link)
	if w == nil {
		return nil, errNotRegistered
	}
	who := w.profile.Load().instance
	if who == "" {
		who = link.RemoteAddr().String()
	}
	asked, err := contract.Lend.Read(request.Fields())
	if err != nil {
		return nil, err
	}
	return m.lender.lend(who, asked, time.Now()), nil
}
