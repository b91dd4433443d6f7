package master

import (
	"bytes"
	"encoding/json"
	"runtime"
	"time"

	jobnet "jobd/net"
)

// What peers may send, by number. docs/protocol.md lists it for people who write clients.
const (
	mostNameBytes     = 255       // of a target or of a worker
	mostInstanceBytes = 1024      // of what tells a worker from all others
	mostTargets       = 10_000    // of a worker, and of one request
	mostJobs          = 100_000   // of one request, and that one client waits for at once
	mostWorkers       = 10_000    // that are registered
	mostProfileBytes  = 64 << 20  // that all registrations may take, see profile.cost
	mostJobsOfAll     = 1_000_000 // that all clients wait for at once
	freeJobs          = 1_000     // a request of at most so many jobs is taken however many the others wait for
	mostJournalBytes  = 1 << 20   // of the data of a request about journals
	mostAnswerBytes   = 64 << 20  // of what all workers answer to one request
	registrationBytes = 4 << 20   // of the data of a registration: more than its limits allow is not looked at
	forwardedBytes    = 64 << 20  // of long messages on their way to workers at once, each counted once
	longBytes         = 64 << 10  // beyond it a message is long: it waits for others of its kind
)

// fanOut is how many workers are asked at once for one client, whatever it asks.
const fanOut = 256

// So many workers are asked at once for all clients, but for those that have not answered so soon.
const (
	turnsAtOnce     = 16
	longTurnsAtOnce = 2 // with long messages
	turnLasts       = 50 * time.Millisecond
)

// processors is how many long messages are read or made at once. One processor stays free for those
// who send short ones.
func processors() int { return max(1, runtime.GOMAXPROCS(0)-1) }

// listOf is a required array of a peer, each of whose items is given to take. It reads no further
// than most items, and ends with the first error of take.
func listOf(fields jobnet.Fields, name string, most int, take func(item json.RawMessage) error) error {
	if value := bytes.TrimLeft(fields[name], " \t\r\n"); len(value) == 0 || value[0] != '[' {
		return jobnet.Refusef("%s must be array", name)
	}
	items := json.NewDecoder(bytes.NewReader(fields[name]))
	if _, err := items.Token(); err != nil {
		return jobnet.Refusef("%s must be array", name)
	}
	for count := 0; items.More(); count++ {
		if count == most {
			return jobnet.Refusef("too many %s: at most %d are allowed", name, most)
		}
		var item json.RawMessage
		if err := items.Decode(&item); err != nil {
			return jobnet.Refusef("%s must be array", name)
		}
		if err := take(item); err != nil {
			return err
		}
	}
	return nil
}

// targetList is Fields.Targets within the limits.
func targetList(fields jobnet.Fields) (targets []string, err error) {
	err = listOf(fields, "targets", mostTargets, func(item json.RawMessage) error {
		var target string
		if jobnet.TypeOf(item) != "string" || json.Unmarshal(item, &target) != nil {
			return jobnet.Refusef("all targets must be strings, %s given", jobnet.TypeOf(item))
		}
		targets = append(targets, target)
		return withinLimit("a target", target, mostNameBytes)
	})
	if err == nil && len(targets) == 0 {
		err = jobnet.Refusal("targets are empty")
	}
	return targets, err
}

func withinLimit(what, text string, most int) error {
	if len(text) > most {
		return jobnet.Refusef("%s is too long: at most %d bytes are allowed", what, most)
	}
	return nil
}
