package api

import (
	"encoding/json"

	jobnet "jobd/net"
	"jobd/net/principal"
)

// What a master takes. docs/protocol.md lists it for people who write clients.
const (
	mostNameBytes     = 255     // of a target or of a worker
	MostTargets       = 10_000  // of a worker, and of one request
	MostJobs          = 100_000 // of one request
	mostInstanceBytes = 1024    // of what tells a worker from all others
)

// What a master answers. A master hands pause, continue and recycle on to its
// workers.
var (
	Register = declare[Registration, Done](Kind{Name: "register-worker", scope: principal.Worker}, readRegistration)

	Poke           = declare[Targets, Done](Kind{Name: "poke", scope: principal.Submit | principal.Worker}, readMasterTargets)
	MasterPause    = declare[Targets, Done](Pause.Kind, readAnyMasterTargets)
	MasterContinue = declare[Targets, Done](Continue.Kind, readAnyMasterTargets)
	MasterRecycle  = declare[Targets, Done](Recycle.Kind, readAnyMasterTargets)

	MasterStatus = declare[Polling, FleetStatus[json.RawMessage]](Status.Kind, readPolling)
	RouteManual  = declare[ManualJobs, RelayedOutcomes](RunManual.Kind, readManualJobs)
	RouteSignal  = declare[SignalJobs, Delivered](SendSignal.Kind, readSignalJobs)
)

// Registration is the data of register-worker. The original ignores what it does not know.
type Registration struct {
	Name     string   `json:"name"`
	Targets  []string `json:"targets"`
	Instance string   `json:"instance,omitempty"` // tells the worker from all others, whatever their names
	Leaving  bool     `json:"leaving,omitempty"`  // it stops in order: the end of its link will be no failure
	Askers   bool     `json:"askers,omitempty"`   // it knows the field by of requests that are passed on
}

func readRegistration(r *reader) Registration {
	registration := Registration{Targets: r.targets(mostNameBytes)}
	if jobnet.TypeOf(r.Fields["name"]) == "string" {
		registration.Name = r.Text("name")
	}
	if registration.Name == "" {
		r.refuse("name is missing or invalid")
	}
	r.limit(len(registration.Name), mostNameBytes, "the name is too long: at most %d bytes are allowed")
	registration.Instance = r.textOr("instance", "")
	r.limit(len(registration.Instance), mostInstanceBytes, "the instance is too long: at most %d bytes are allowed")
	registration.Leaving, registration.Askers = r.Flag("leaving"), r.Flag("askers")
	return registration
}

func readMasterTargets(r *reader) Targets {
	return Targets{Detail: r.Flag("detail"), Targets: r.targets(mostNameBytes)}
}

func readAnyMasterTargets(r *reader) Targets {
	return Targets{Detail: r.Flag("detail"), Targets: r.anyTargets(mostNameBytes)}
}

// Polling is the data of a master's status.
type Polling struct {
	Workers  bool  `json:"poll_workers,omitempty"` // ask them for theirs
	Patience int64 `json:"patience,omitempty"`     // for how many milliseconds; 0: as long as a master waits
}

// longestPatience is longer than a master waits.
const longestPatience = 60_000

func readPolling(r *reader) Polling {
	return Polling{Workers: r.Flag("poll_workers"), Patience: r.within("patience", 0, longestPatience, 0)}
}

// FleetStatus is a master's answer to status. S is a worker's own answer, which the master hands on
// as it is; jobctl reads it as a *WorkerStatus.
type FleetStatus[S any] struct {
	Workers []FleetWorker[S] `json:"workers"` // in the order in which they registered
	Memory  MemoryUsage      `json:"memoryUsage"`
	Build                    // of the master

	Troubles []NotReady `json:"troubles,omitempty"` // what keeps the master itself from a part of its work

	// What was poked and is served by nobody: the first of UnservedCount. It is told where workers
	// were polled.
	Unserved      []UnservedTarget `json:"unserved,omitempty"`
	UnservedCount int              `json:"unservedCount,omitempty"`

	// Workers that are gone without having said that they stop, the one first that is gone longest:
	// within the last day, and at most as many as a master keeps in mind.
	Down []DownWorker `json:"down,omitempty"`
}

// DownWorker is a worker that a master misses: its link has ended, and it has not registered since.
type DownWorker struct {
	RemoteAddr string   `json:"remoteAddr"`
	RemotePort int      `json:"remotePort"`
	Targets    []string `json:"targets"`
	TargetsCut int      `json:"targetsCut,omitempty"` // how many more it had
	Name       string   `json:"name"`
	Since      int64    `json:"since"` // unix milliseconds
}

// UnservedTarget is a target that clients have poked, and that no registered worker serves.
type UnservedTarget struct {
	Target string `json:"target"`
	Since  int64  `json:"since"` // unix milliseconds of the first poke
}

// FleetWorker describes one registered worker. What it answered itself is there only where workers
// were polled.
type FleetWorker[S any] struct {
	RemoteAddr  string   `json:"remoteAddr"`
	RemotePort  int      `json:"remotePort"`
	Targets     []string `json:"targets"`
	TargetsCut  int      `json:"targetsCut,omitempty"` // how many more it has than there is room for
	Name        string   `json:"name"`
	Status      S        `json:"workerStatus,omitempty"`
	StatusError string   `json:"workerStatusError,omitempty"`
}

// UnmarshalJSON has a worker's own answer that can't be read hide no other worker's.
func (w *FleetWorker[S]) UnmarshalJSON(data []byte) error {
	type fields FleetWorker[S]
	read := struct {
		*fields
		Status json.RawMessage `json:"workerStatus"`
	}{fields: (*fields)(w)}
	if err := json.Unmarshal(data, &read); err != nil || read.Status == nil {
		return err
	}
	var status S
	if err := json.Unmarshal(read.Status, &status); err != nil {
		w.StatusError = "its answer to status is not understood: " + err.Error()
		return nil
	}
	w.Status = status
	return nil
}

// TargetJob is a job as a client of a master names it.
type TargetJob struct {
	ID     jobnet.Whole `json:"id"`
	Target string       `json:"target"`
}

// ManualJobs is the data of a master's run-manual.
type ManualJobs struct {
	Jobs []TargetJob `json:"jobs"`
}

// SignalJob is a job that a client of a master wants signalled.
type SignalJob struct {
	ID     jobnet.Whole `json:"id"`
	Signal int64        `json:"signal"` // its number
	Target string       `json:"target"`
}

// SignalJobs is the data of a master's send-signal.
type SignalJobs struct {
	Jobs []SignalJob `json:"jobs"`
}

func readManualJobs(r *reader) (m ManualJobs) {
	once := targetsOnce{}
	r.objects("jobs", MostJobs, func(item *reader) {
		id := item.Whole("id")
		m.Jobs = append(m.Jobs, TargetJob{id, once.read(item)})
	})
	return m
}

func readSignalJobs(r *reader) (s SignalJobs) {
	once := targetsOnce{}
	r.objects("jobs", MostJobs, func(item *reader) {
		id, signal := item.Whole("id"), item.Int("signal")
		s.Jobs = append(s.Jobs, SignalJob{id, signal, once.read(item)})
	})
	return s
}

// masterTarget is a target as a master takes it.
func (r *reader) masterTarget() string {
	target := r.target()
	r.limit(len(target), mostNameBytes, "a target is too long: at most %d bytes are allowed")
	return target
}

// targetsOnce holds the text of each target of a request once, however many jobs name it.
type targetsOnce map[string]string

// read reads a job's target.
func (o targetsOnce) read(job *reader) string {
	target := job.masterTarget()
	if once, known := o[target]; known {
		job.named = nil
		return once
	}
	job.limit(len(o)+1, MostTargets, "too many targets: at most %d are allowed")
	o[target] = target
	return target
}

// RelayedOutcomes is Outcomes as a master reads it of its workers, and answers it: what a worker
// told of a job goes to the client as it is.
type RelayedOutcomes struct {
	Jobs   map[string]json.RawMessage `json:"jobs,omitempty"`
	Errors map[string]any             `json:"errors,omitempty"`
}
