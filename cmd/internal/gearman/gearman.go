package gearman

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	jobexec "jobd/exec"
	"jobd/journal"
	jobnet "jobd/net"
	"jobd/net/gearman"
	"jobd/net/principal"
	"jobd/store/sqlite"
)

// Config is what a front for Gearman is made of.
type Config struct {
	Name        string // the worker's, for handles
	Concurrency int    // of functions that no configuration names; 0: as many as workers are connected
	MaxPacket   int
	Allow       []netip.Prefix // beside this host
	Version     string
	Table       *sqlite.Table // into which jobs are inserted; nil: nothing is
	Logger      *slog.Logger

	// OnStanding is told how the workers of a target stand, see request.Config.
	OnStanding func(jobexec.PoolStanding)
}

// Worker is what runs jobs: a jobexec.Worker.
type Worker interface {
	TargetNames() []string
	Serves(target string) bool
	FindTarget(target string, concurrency int, launcher jobexec.Launcher, by string) error
	SetConcurrency(target string, concurrency int, by string) error
	RemoveTarget(target, by string) error
	GivenBack(targets []string)
	Cancel(ctx context.Context, wish jobexec.CancelWish) (jobexec.Cancelled, error)
	RunManual(ctx context.Context, ids []int64, by string) (jobexec.Answer[jobexec.Result], error)
	Output(ctx context.Context, g jobexec.Glance) (out jobexec.JobOutput, found bool, err error)
}

// Parts are what the front needs and what is made after it.
type Parts struct {
	Worker Worker
	Rows   func(ctx context.Context, ids []int64) ([]journal.Row, error) // of a table into which nothing is inserted
	Shown  func(seq uint64, job int64) <-chan struct{}                   // see store.Mirror
	// CaughtUp is closed when the table shows what the journal had at the start, as far as it takes that.
	CaughtUp <-chan struct{}
	// Reached is the event up to which the table shows the journal, as far as it takes that.
	Reached func() uint64
	Known   func(jobnet.Peer) *principal.Session // nil: who it is must be shown otherwise
	MustTLS bool                                 // on addresses of other hosts
	Refused func(journal.Refused)
}

// Front is where programs that were written for gearmand use jobd.
type Front struct {
	Config
	Parts
	server    *gearman.Server
	intake    *intake // nil: nothing is inserted
	executor  *executor
	functions *functions
	outputs   outputs
	tasks     sync.WaitGroup // what Serve waits for at its end
}

// New makes a front that serves nobody yet.
func New(c Config) *Front {
	f := &Front{Config: c}
	f.outputs = outputs{front: f, jobs: map[int64]*output{}}
	f.executor = newExecutor(f)
	f.functions = newFunctions(f)
	server := gearman.Config{
		Queue: queue{f}, Functions: f.functions, Know: f.know, Refused: f.refused,
		Workers:   f.workers,
		MaxPacket: c.MaxPacket, Version: c.Version, Logger: c.Logger,
	}
	if c.Table != nil {
		f.intake = newIntake(f)
		server.Intake = f.intake
	} else {
		server.Intake = newNamed(f)
	}
	f.server = gearman.New(server)
	return f
}

// Connect gives the front what was made after it. It comes before Serve.
func (f *Front) Connect(p Parts) { f.Parts = p }

// Serve serves clients and workers until ctx ends.
func (f *Front) Serve(ctx context.Context, listener net.Listener) error {
	defer f.tasks.Wait()
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		if f.intake != nil {
			f.intake.stop()
		}
		cancel()
	})()
	return f.server.Serve(serving, listener)
}

// Committed hears of a commit of the journal. It does not block.
func (f *Front) Committed(events []journal.Event) {
	if f.intake != nil {
		f.intake.committed(events)
	}
}

// workers hears how many workers can do a function.
func (f *Front) workers(function string, n int) {
	f.executor.workers(function)
	f.functions.workers(function, n)
}

// beside sends starts to the front, or to another requester, as their modes say.
type beside struct {
	front *Front
	other jobexec.Requester
}

// Beside makes one requester of the front and another one.
func Beside(f *Front, other jobexec.Requester) jobexec.Requester { return beside{f, other} }

// Start implements jobexec.Requester.
func (b beside) Start(spec jobexec.Spec) (jobexec.Process, error) {
	if spec.Mode == jobexec.ModeGearman {
		return b.front.executor.start(spec), nil
	}
	return b.other.Start(spec)
}

// SetServices implements jobexec.Requester.
func (b beside) SetServices(services map[string]jobexec.Service) {
	b.front.executor.setTargets(services)
	others := maps.Clone(services)
	maps.DeleteFunc(others, func(_ string, of jobexec.Service) bool { return of.Mode == jobexec.ModeGearman })
	b.other.SetServices(others)
}

// Standings implements jobexec.Requester.
func (b beside) Standings() []jobexec.PoolStanding {
	return append(b.other.Standings(), b.front.executor.standings()...)
}

// errStranger is why somebody is not served.
var errStranger = errors.New("its identity is unknown; it may connect from this host, from an address of gearman_allow, or with a certificate or uid of principals_file")

// know tells who is at the other end. Who comes from this host or an address of gearman_allow and has no credential
// does what clients and workers do, and commands nothing where somebody could be told from somebody else.
func (f *Front) know(conn net.Conn) (*principal.Session, error) {
	peer := jobnet.PeerOf(conn)
	trusted := peer.Local || f.allows(conn.RemoteAddr())
	session := f.Known(peer)
	switch {
	case f.MustTLS && !peer.TLS && !peer.Local:
		return nil, errors.New(jobnet.PlainRefused)
	case session != nil && (session.Line() != nil || trusted):
		return session, nil
	case trusted:
		all, _ := principal.ParseTargets("*")
		return &principal.Session{
			How: "gearman", Address: peer.Address, Scope: principal.Status | principal.Submit | principal.Worker, Targets: all,
		}, nil
	}
	return nil, errStranger
}

func (f *Front) allows(address net.Addr) bool {
	at, err := netip.ParseAddrPort(address.String())
	return err == nil && slices.ContainsFunc(f.Allow, func(p netip.Prefix) bool { return p.Contains(at.Addr().Unmap()) })
}

// refused has a refusal journalled.
func (f *Front) refused(from *principal.Session, request, about string, why error) {
	f.Refused(journal.Refused{Request: "gearman " + request, About: about, Reason: why.Error(), By: from.By()})
}

// mostOfHandle is how many bytes a handle has at most.
const mostOfHandle = 63

// handle names a job to clients.
func (f *Front) handle(id int64) string {
	number := strconv.FormatInt(id, 10)
	name := f.Name[:min(len(f.Name), mostOfHandle-len("H::")-len(number))]
	return "H:" + name + ":" + number
}

// idOf is the job of a handle; 0: it is none of ours.
func (f *Front) idOf(handle string) int64 {
	id, err := strconv.ParseInt(handle[strings.LastIndex(handle, ":")+1:], 10, 64)
	if err != nil || f.handle(id) != handle {
		return 0
	}
	return id
}
