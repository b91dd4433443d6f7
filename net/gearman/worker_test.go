package gearman

import (
	"testing"
	"testing/synctest"
	"time"
)

// quiet is a run of which nobody wants to hear.
type quiet struct{}

func (quiet) Taken(string)                  {}
func (quiet) Heard(Kind, []string, Payload) {}
func (quiet) Lost(error, bool)              {}

// Workers that have no job and ask for none, while one waits, are as ones that are not there, until one of them asks.
func TestWorkersThatDoNotAsk(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		asks Kind // before the job waits; 0: nothing
		mute bool
	}{
		{"never", 0, true},
		{"sleeps, and does not wake", PreSleep, true},
		{"has a job", GrabJob, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, _, conn := connected(t)
				told := 0
				s.Config.Workers = func(string, int) { told++ }
				send := func(kind Kind, args ...string) {
					if _, err := conn.Write(packet("REQ", kind, args...)); err != nil {
						t.Fatal(err)
					}
					synctest.Wait()
				}
				go func() { // what it is sent
					for buffer := make([]byte, 100); ; {
						if _, err := conn.Read(buffer); err != nil {
							return
						}
					}
				}()
				send(CanDo, "f")
				first := &Job{Function: "f", Handle: "H:x:1", Run: quiet{}}
				switch s.Offer(first); c.asks {
				case GrabJob:
					send(GrabJob)
					s.Assign(first, "", Payload{})
				case PreSleep:
					s.Withdraw(first)
					send(PreSleep)
				default:
					s.Withdraw(first)
				}
				time.Sleep(2 * askWithin) // what it did then is long ago
				told = 0
				job := &Job{Function: "f", Handle: "H:x:2", Run: quiet{}}
				s.Offer(job)
				time.Sleep(3 * askWithin)
				synctest.Wait()
				if mute := s.Mute("f"); mute != c.mute || mute != (told > 0) {
					t.Errorf("mute: %t, told %d times", mute, told)
				}
				s.Withdraw(job)
				send(PreSleep)
				if s.Mute("f") {
					t.Error("it has asked, and is mute still")
				}
			})
		})
	}
}
