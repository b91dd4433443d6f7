package master

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// lendInterval is how often a worker asks for its shares.
const lendInterval = time.Second

// RatesChanged has the agent look again whether there are rates that all workers keep together. It
// never blocks, and may be called from anywhere.
func (a *Agent) RatesChanged() {
	select {
	case a.rated <- struct{}{}:
	default:
	}
}

// borrow asks the master for shares of rates, as long as there are such rates, until ctx or the link
// ends. The worker keeps what it was lent last. A master that does not know the request, as an older
// one, is not asked again over this link.
func (a *Agent) borrow(ctx context.Context, link *jobnet.Link) {
	for {
		var later <-chan time.Time
		if rates := a.config.Rates(); len(rates) > 0 {
			err := a.askShares(ctx, link, rates)
			if jobnet.CodeOf(err) == jobnet.CodeUnknown {
				a.config.Logger.Warn("the master lends no shares of rates, as an older one: this worker keeps what it has", "error", err)
				return
			}
			var refused *jobnet.RemoteError
			if errors.As(err, &refused) {
				a.config.Logger.Debug("the master refused a share of a rate", "error", err)
			}
			later = time.After(lendInterval)
		}
		select {
		case <-later:
		case <-a.rated:
		case <-link.Done():
			return
		case <-ctx.Done():
			return
		}
	}
}

// askShares asks once, and hands on what is lent.
func (a *Agent) askShares(ctx context.Context, link *jobnet.Link, rates []contract.SharedRate) error {
	raw, err := requestWithin(ctx, answerTimeout, link, contract.Lend.Name, contract.Borrowing{Rates: rates})
	if err != nil {
		return err
	}
	var lent contract.Shares
	if err := json.Unmarshal(raw, &lent); err != nil {
		return err
	}
	a.config.OnLent(lent.Shares)
	return nil
}
