package journal

import (
	"encoding/json"
	"fmt"
)

// registry lists every kind of event, in the order in which they are documented, with what reads its payload. Whoever
// needs to know all kinds asks here.
var registry = []struct {
	kind   Kind
	decode func(data []byte) (Payload, error)
}{
	{KindAccepted, decodeAs[Accepted]},
	{KindIgnored, decodeAs[Ignored]},
	{KindReleased, decodeAs[Released]},
	{KindRunning, decodeAs[Running]},
	{KindStarted, decodeAs[Started]},
	{KindSignal, decodeAs[Signal]},
	{KindDone, decodeAs[Done]},
	{KindConflict, decodeAs[Conflict]},
	{KindSetAside, decodeAs[SetAside]},
	{KindRequeued, decodeAs[Requeued]},
	{KindOpened, decodeAs[Opened]},
	{KindClosed, decodeAs[Closed]},
	{KindPaused, decodeAs[Paused]},
	{KindContinued, decodeAs[Continued]},
	{KindTargetAdded, decodeAs[TargetAdded]},
	{KindTargetRemoved, decodeAs[TargetRemoved]},
	{KindConcurrencySet, decodeAs[ConcurrencySet]},
	{KindMarked, decodeAs[Marked]},
	{KindServer, decodeAs[Server]},
	{KindRequested, decodeAs[Requested]},
	{KindRefused, decodeAs[Refused]},
	{KindReloaded, decodeAs[Reloaded]},
	{KindReapplied, decodeAs[Reapplied]},
	{KindRetention, decodeAs[Retention]},
}

var decoders = func() map[Kind]func([]byte) (Payload, error) {
	all := make(map[Kind]func([]byte) (Payload, error), len(registry))
	for _, r := range registry {
		all[r.kind] = r.decode
	}
	return all
}()

// Kinds lists the kinds of event in the order in which they are documented.
func Kinds() []Kind {
	kinds := make([]Kind, len(registry))
	for i, r := range registry {
		kinds[i] = r.kind
	}
	return kinds
}

// DecodePayload reads the JSON form of a payload. A Done's output stands beside that form, and is passed beside it.
func DecodePayload(kind Kind, data, stdout, stderr []byte) (Payload, error) {
	decode := decoders[kind]
	if decode == nil {
		return nil, fmt.Errorf("unknown kind")
	}
	payload, err := decode(data)
	if done, ok := payload.(Done); ok {
		done.Stdout.Kept, done.Stderr.Kept = stdout, stderr
		payload = done
	}
	return payload, err
}

func decodeAs[P Payload](data []byte) (Payload, error) { return PayloadOf[P](data) }

// payloadOf reads a payload of a kind that is known.
func PayloadOf[P Payload](data []byte) (P, error) {
	var p P
	err := json.Unmarshal(data, &p)
	return p, err
}
