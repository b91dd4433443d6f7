package disorder

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"jobd/store/storetest/dbserver"
)

// lane is a database server of its own, on which one trial runs at a time: trials restart it.
type lane struct{ server *dbserver.Server }

// lanes are free when they are in the channel.
var lanes = make(chan *lane, size(2, 3))

// tally is what all trials of this process came to.
var tally struct {
	sync.Mutex
	trials  int
	slowest []time.Duration
}

// long tells the long form from the short one.
func long() bool { return os.Getenv("TORTURE") == "long" }

// size is a number that depends on the form.
func size[N any](short, inLong N) N {
	if long() {
		return inLong
	}
	return short
}

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run1(m))
}

func run1(m *testing.M) (code int) {
	for range cap(lanes) {
		server, err := dbserver.Start(context.Background(), dbserver.Options{Args: []string{
			"--max-connections=500", "--max-connect-errors=1000000", "--innodb-lock-wait-timeout=1",
		}})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer func() {
			if err := server.Close(); err != nil {
				fmt.Fprintln(os.Stderr, err)
				code = 1
			}
		}()
		lanes <- &lane{server}
	}
	code = m.Run()
	printTally()
	return code
}

// printTally tells how long the slowest wake-ups took.
func printTally() {
	tally.Lock()
	defer tally.Unlock()
	if tally.trials == 0 {
		return
	}
	slices.Sort(tally.slowest)
	n := len(tally.slowest)
	fmt.Printf("%d trials; the longest time in which nothing happened at a quiet point: median %s, 90 %% %s, most %s\n", tally.trials,
		tally.slowest[n/2].Round(time.Millisecond), tally.slowest[n*9/10].Round(time.Millisecond), tally.slowest[n-1].Round(time.Millisecond))
}

func count(t *trial) {
	tally.Lock()
	defer tally.Unlock()
	tally.trials++
	tally.slowest = append(tally.slowest, t.slowest)
}
