package master

import "jobd/net/contract"

// What peers may have a master hold and do, by number; what one request may have is in
// net/contract. docs/protocol.md lists it all for people who write clients.
const (
	mostJobs          = contract.MostJobs // that one client waits for at once
	mostWorkers       = 10_000            // that are registered
	mostProfileBytes  = 64 << 20          // that all registrations may take, see profile.cost
	mostJobsOfAll     = 1_000_000         // that all clients wait for at once
	freeJobs          = 1_000             // a request of at most so many jobs is taken however many the others wait for
	mostRelayedBytes  = 1 << 20           // of the data of a request that is handed on as it is
	mostAnswerBytes   = 64 << 20          // of what all workers answer to one request
	mostKeptBytes     = 256 << 20         // of those for all clients
	registrationBytes = 4 << 20           // of the data of a registration: more than its limits allow is not looked at
	forwardedBytes    = 64 << 20          // of long messages on their way to workers at once, each counted once
	longBytes         = 64 << 10          // beyond it a message is long: it waits for others of its kind
)

// fanOut is how many workers are asked at once for one client, whatever it asks.
const fanOut = 256
