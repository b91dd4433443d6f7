package master

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"jobd/net/api"
	"jobd/store/storetest/must"
)

// However many targets there are, a status is short, and workers with few targets are told in full.
func TestStatusIsBounded(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{}, "")
	few := numbered("few", 20)
	registered(t, address, "few", few, nil)
	for i := range 8 {
		registered(t, address, fmt.Sprint("many", i), numbered(strings.Repeat("x", 240), api.MostTargets), nil)
	}
	answer := ask(t, clientOf(t, address), "status", nil)
	if len(answer) > mostStatusBytes+1<<16 {
		t.Errorf("a status of %d bytes", len(answer))
	}
	var status api.FleetStatus[json.RawMessage]
	must.Do(t, json.Unmarshal(answer, &status))
	for _, w := range status.Workers {
		switch {
		case w.Name == "few" && (!slices.Equal(w.Targets, few) || w.TargetsCut != 0):
			t.Errorf("of the worker with few targets: %d, cut %d", len(w.Targets), w.TargetsCut)
		case w.Name != "few" && (w.TargetsCut == 0 || len(w.Targets)+w.TargetsCut != api.MostTargets):
			t.Errorf("%s: %d targets, cut %d", w.Name, len(w.Targets), w.TargetsCut)
		}
	}
}

// Clients that read nothing of their status keep no other from its own.
func TestUnreadStatusesKeepNoOtherWaiting(t *testing.T) {
	t.Parallel()
	address, _, _ := serveMaster(t, Config{}, "")
	for i := range 8 {
		registered(t, address, fmt.Sprint("many", i), numbered(strings.Repeat("x", 240), api.MostTargets), nil)
	}
	for range 17 {
		conn := must.Get(net.Dial("tcp", address))(t)
		w := newWire(t, conn)
		w.send(`[0,{"no":1,"type":"status"}]`)
		if first, err := w.reader.Peek(4); err != nil { // the answer is on its way; nothing more of it is read
			t.Fatalf("no answer begins: %q, %v", first, err)
		}
	}
	ask(t, clientOf(t, address), "status", nil)
}
