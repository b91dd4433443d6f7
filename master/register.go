package master

import (
	"context"
	"log/slog"
	"time"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// A worker may register again and again, since its targets change: so often at once, and then once
// every so often. Its requests wait meanwhile.
const (
	registrationsAtOnce = 16
	registrationEvery   = 100 * time.Millisecond
)

// register answers register-worker.
func (m *Master) register(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
	if err := m.paced(ctx, link); err != nil {
		return nil, err
	}
	w, former, err := m.enrol(link, request)
	if err != nil {
		return nil, err
	}
	select {
	case m.registered <- w:
	case <-m.ended:
		m.registry.remove(w)
		return nil, jobnet.Refusal("shutting down").With(jobnet.CodeStopping)
	case <-ctx.Done():
		m.registry.remove(w)
		return nil, ctx.Err()
	}
	if p := w.profile.Load(); former == nil || !former.equal(p) {
		m.say(slog.LevelInfo, link, "worker registered", "worker", p.name, "targets", listed(p.targets))
	}
	return contract.Done{}, nil
}

// paced has a worker wait that registers too often.
func (m *Master) paced(ctx context.Context, link *jobnet.Link) error {
	w := m.registry.over(link)
	if w == nil {
		return nil
	}
	wait := w.pace.due(time.Now(), registrationsAtOnce, registrationEvery)
	if wait == 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enrol puts the worker at the other end of link into the registry; former is what it was
// registered as before.
func (m *Master) enrol(link *jobnet.Link, request jobnet.Request) (w *worker, former *profile, err error) {
	if len(request.Data) > registrationBytes {
		return nil, nil, jobnet.Refusef("the registration is too long: at most %d bytes are allowed", registrationBytes).
			With(jobnet.CodeLimit)
	}
	r, err := contract.Register.Read(request.Fields())
	if err != nil {
		return nil, nil, err
	}
	return m.registry.put(link, newProfile(r))
}
