package master

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	jobnet "jobd/net"
	"jobd/net/api"
)

// A worker is lent the whole of a rate that nobody else asks for, hears of changes without being
// registered anew, and keeps its share while the master is away.
func TestAnAgentBorrowsItsShare(t *testing.T) {
	t.Parallel()
	address, m, stop := serveMaster(t, Config{}, "s3cret")
	m.lender = newLender(time.Now().Add(-time.Hour))
	var rates atomic.Pointer[[]api.SharedRate]
	rates.Store(&[]api.SharedRate{})
	lent := make(chan map[string]float64, 100)
	agent := agentOf(address, targetsOf("a"), nil)
	agent.config.Rates = func() []api.SharedRate { return *rates.Load() }
	agent.config.OnLent = func(shares map[string]float64) { lent <- shares }
	start(t, agent.Run)
	await(t, m, []string{"a"})
	rates.Store(&[]api.SharedRate{{Target: "a", Starts: 30, Per: 1000, Wants: true}})
	agent.Changed()
	select {
	case shares := <-lent:
		if shares["a"] != 30 {
			t.Errorf("%v were lent, want all 30", shares)
		}
	case <-time.After(patience):
		t.Fatal("nothing was lent")
	}
	stop()
	for len(lent) > 0 {
		if shares := <-lent; shares["a"] != 30 {
			t.Errorf("then %v", shares)
		}
	}
}

// A master that does not know the request is asked once over a connection.
func TestAnAgentOfAnOlderMasterBorrowsNothing(t *testing.T) {
	t.Parallel()
	address := fakeMaster(t, func([]string) error { return nil })
	asked := make(chan struct{}, 100)
	log := newLogged()
	agent := agentOf(address, targetsOf("a"), nil)
	agent.config.Rates = func() []api.SharedRate {
		asked <- struct{}{}
		return []api.SharedRate{{Target: "a", Starts: 1, Per: 1000}}
	}
	agent.config.OnLent = func(map[string]float64) { t.Error("something was lent") }
	agent.config.Logger = log.logger()
	start(t, agent.Run)
	log.await(t, "lends no shares of rates")
	agent.Changed()
	if n := len(asked); n != 1 {
		t.Errorf("it was asked %d times", n)
	}
}

func TestLendIsForRegisteredWorkers(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{}, "s3cret")
	link := connect(t, address, jobnet.LinkConfig{Password: "s3cret"})
	fails := func(data any, want string) {
		t.Helper()
		if _, err := link.Request(within(t), api.Lend.Name, data); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want %q", data, err, want)
		}
	}
	rate := api.SharedRate{Target: "a", Starts: 1, Per: 1000}
	fails(api.Borrowing{Rates: []api.SharedRate{rate}}, "only a registered worker")
	ask(t, link, "register-worker", api.Registration{Name: "w", Targets: []string{"a"}})
	fails(map[string]any{}, "rates must be array")
	fails(map[string]any{"rates": []any{map[string]any{"target": "a", "starts": 0, "per": 1}}}, "starts and per must be greater than 0")
	fails(map[string]any{"rates": []any{map[string]any{"target": "a", "starts": 1, "per": 1, "has": -1}}}, "has must be a number of at least 0")
	fails(map[string]any{"rates": []any{map[string]any{"target": strings.Repeat("x", 256), "starts": 1, "per": 1}}}, "too long")
}

// Nobody is lent a share of a target that it does not serve.
func TestSharesAreOfTargetsThatOneServes(t *testing.T) {
	t.Parallel()
	address, m, _ := serveMaster(t, Config{}, "s3cret")
	m.lender = newLender(time.Now().Add(-time.Hour))
	var rates atomic.Pointer[[]api.SharedRate]
	rates.Store(&[]api.SharedRate{{Target: "others", Starts: 30, Per: 1000}, {Target: "a", Starts: 30, Per: 1000}})
	lent := make(chan map[string]float64, 100)
	agent := agentOf(address, targetsOf("a"), nil)
	agent.config.Rates = func() []api.SharedRate { return *rates.Load() }
	agent.config.OnLent = func(shares map[string]float64) { lent <- shares }
	start(t, agent.Run)
	select {
	case shares := <-lent:
		if len(shares) != 1 || shares["a"] != 30 {
			t.Errorf("%v were lent", shares)
		}
	case <-time.After(patience):
		t.Fatal("nothing was lent")
	}
}
