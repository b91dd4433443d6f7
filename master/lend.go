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
	var shares contract.Shares
	err := m.aside(ctx, len(request.Data), func() error {
		asked, err := contract.Lend.Read(request.Fields())
		if err == nil {
			shares = m.lender.lend(who, asked, time.Now())
		}
		return err
	})
	return shares, err
}
