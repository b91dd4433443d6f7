package torture

import (
	"context"
	"fmt"
	"os"
	"testing"

	"jobd/store/storetest/dbserver"
	"jobd/tests/harness"
)

// suite is what the tests of a run share.
var suite struct {
	server *dbserver.Server
	matrix matrix
}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	harness.AtOnce(4)
	var err error
	suite.server, err = dbserver.Start(context.Background(), dbserver.Options{Args: []string{"--max-connections=500"}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := suite.server.Close(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	code = m.Run()
	suite.matrix.print(os.Stdout)
	return code
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

// armed is the program that kills itself at failpoints, as harness.Launch takes it.
const armed = "failpoints/jobd"
