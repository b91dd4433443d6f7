package dbserver

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"jobd/store/storetest/must"
)

// childVariable makes this test's own binary the process that starts a server and is killed.
const childVariable = "JOBD_TEST_DBSERVER_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVariable) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// child starts a server, says where it is, and waits to be killed.
func child() int {
	server, err := Start(context.Background(), Options{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(server.process.command.Process.Pid, server.program.outside(server.dir))
	select {}
}

func TestServerLosesNothingByAKill(t *testing.T) {
	t.Parallel()
	server := must.Get(Start(t.Context(), Options{}))(t)
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	must.Do(t, server.CreateDatabase(t.Context(), "app", JobsTable))
	account := must.Get(server.Limited(t.Context(), "app"))(t)
	app := must.Get(server.Open("app"))(t)
	t.Cleanup(func() { app.Close() })
	must.Get(app.Exec("INSERT INTO jobs (target, time_created) VALUES ('a', 1)"))(t)
	for name, end := range map[string]func() error{"killed": server.Kill, "stopped": server.Stop} {
		must.Do(t, end())
		if err := app.Ping(); err == nil {
			t.Fatalf("%s: the server still answers", name)
		}
		must.Do(t, server.Restart(t.Context()))
		expectGrants(t, app, account)
	}
}

// expectGrants checks that the row is there and that the account may do no more than it should.
func expectGrants(t *testing.T, app *sql.DB, account Account) {
	t.Helper()
	var rows int
	if err := app.QueryRow("SELECT COUNT(*) FROM jobs").Scan(&rows); err != nil || rows != 1 {
		t.Fatalf("%d rows, %v; want the one that was inserted", rows, err)
	}
	grants := must.Get(app.Query("SHOW GRANTS FOR ?@'%'", account.User))(t)
	defer grants.Close()
	var all []string
	for grants.Next() {
		var grant string
		must.Do(t, grants.Scan(&grant))
		all = append(all, grant)
	}
	if len(all) != 2 || !strings.HasPrefix(all[0], "GRANT USAGE ON *.*") || !strings.HasPrefix(all[1], "GRANT SELECT, UPDATE ON `app`.`jobs`") {
		t.Errorf("grants %q: want SELECT and UPDATE on the one table", all)
	}
}

func TestServerDiesWithItsStarter(t *testing.T) {
	t.Parallel()
	starter := exec.Command(os.Args[0])
	starter.Env = append(os.Environ(), childVariable+"=1")
	output := must.Get(starter.StdoutPipe())(t)
	must.Do(t, starter.Start())
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("the starter said %q: %v", line, err)
	}
	var pid int
	var dir string
	if _, err := fmt.Sscan(line, &pid, &dir); err != nil {
		t.Fatalf("the starter said %q: %v", line, err)
	}
	must.Do(t, starter.Process.Kill())
	_ = starter.Wait() // it was killed
	awaitGone(t, fmt.Sprintf("/proc/%d/exe", pid))

	server := must.Get(Start(t.Context(), Options{}))(t)
	defer server.Close()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("stat %s: %v; want the folder swept by the next start", dir, err)
	}
}

// awaitGone polls: nothing signals the end of a process that is not a child.
func awaitGone(t *testing.T, path string) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := os.Readlink(path); err != nil {
			return
		}
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s is still there", path)
		}
	}
}

func TestStartSaysWhatIsMissing(t *testing.T) {
	cases := []struct{ name, variable, value, want string }{
		{"no MySQL in the folder", rootVariable, "/nowhere", "tools/mysql-chroot.sh"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(c.variable, c.value)
			if _, err := Start(t.Context(), Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v; want an error that names %s", err, c.want)
			}
		})
	}
	t.Run("a server that refuses its arguments", func(t *testing.T) {
		_, err := Start(t.Context(), Options{Args: []string{"--no-such-argument"}})
		if err == nil || !strings.Contains(err.Error(), "no-such-argument") {
			t.Errorf("got %v; want the end of the server's log", err)
		}
	})
}
