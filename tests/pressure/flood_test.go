package pressure

import (
	"testing"
	"time"

	"jobd/tests/harness"
)

// mostMemory is what a master may take beside any flood, in bytes. The floods are larger by far.
const mostMemory = 1 << 30

// mostLog is how much of the log any flood may write, in bytes.
const mostLog = 1 << 20

// Floods of those who don't know the password: what a frame asks for is not looked at, but for how long it is,
// how often one comes, and how deep it is to read.
var asStrangers = map[string]bool{"registrations of a million targets": true, "registrations again and again": true, "deep nesting": true}

// However peers flood a master, who knows its password or not, its memory is bounded, it writes little to its log, and
// an honest client is answered.
func TestMasterBesideFloods(t *testing.T) {
	t.Parallel()
	for _, flood := range harness.MasterFloods() {
		for _, knows := range []bool{true, false} {
			name, password := flood.Name+" with the password", "s3cret"
			if !knows {
				name, password = flood.Name+" without the password", ""
				if !asStrangers[flood.Name] {
					continue
				}
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				master := harness.StartMaster(t, harness.Settings{"password": "s3cret", "poke_throttle_interval": "0.05"})
				harness.Fleet(t, master, "s3cret", 200)
				before := len(master.Output())
				stop := flood.Start(t, master.Addr, password)
				took := harness.Honest(t, master, "s3cret", time.Second)
				sent := stop()
				memory, log := harness.MemoryPeak(t, master.Pid), len(master.Output())-before
				t.Logf("%d frames: %d answers, p50 %v, p99 %v, longest %v; memory at most %d MB; %d bytes of log",
					sent, len(took), took[len(took)/2], took[(len(took)-1)*99/100], took[len(took)-1], memory/1e6, log)
				if memory > mostMemory {
					t.Errorf("the master took %d MB", memory/1e6)
				}
				if log > mostLog {
					t.Errorf("the flood wrote %d bytes of log, among them %.500s", log, master.Output()[before:])
				}
			})
		}
	}
}
