package clients

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql" // the application's driver
	_ "modernc.org/sqlite"             // another one

	"jobd/examples/clients/client"
	"jobd/store/storetest/check"
	"jobd/store/storetest/must"
	"jobd/tests/harness"
)

func TestMain(m *testing.M) {
	if os.Getenv("JOBD_CLIENT_DRIVER") != "" {
		os.Exit(drive(os.Args[1:]))
	}
	// Debian's drivers for Python and Node.js can't log in to a MySQL 9; its table is tested elsewhere.
	os.Unsetenv("JOBD_TEST_MYSQL_ROOT")
	harness.MainAtOnce(m, 4)
}

// language is one client with its driver.
type language struct {
	name    string
	command []string
	env     []string
}

// languages are the clients; each begins with its driver's command.
func languages(t *testing.T) []language {
	t.Helper()
	self := must.Get(os.Executable())(t)
	return []language{
		{name: "php", command: []string{"php", testdata(t, "driver.php")}},
		{name: "python", command: []string{python(t), testdata(t, "driver.py")}},
		{name: "node", command: []string{"node", testdata(t, "driver.cjs")}, env: []string{"NODE_PATH=/usr/share/nodejs"}},
		{name: "go", command: []string{self}, env: []string{"JOBD_CLIENT_DRIVER=go"}},
		{name: "sh", command: []string{testdata(t, "driver.sh")}},
	}
}

func testdata(t *testing.T, name string) string {
	t.Helper()
	path := must.Get(filepath.Abs(filepath.Join("testdata", name)))(t)
	return path
}

// python is a Python that has the modules of Debian's packages: another one may come first in PATH.
func python(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"python3", "/usr/bin/python3"} {
		if exec.Command(name, "-c", "import pymysql, django").Run() == nil {
			return name
		}
	}
	t.Fatal("no Python here has pymysql and django: run tools/deps.sh")
	return ""
}

// settings are environment variables for a driver.
type settings map[string]string

// daemon is how a driver reaches a worker or a master.
func daemon(addr string, master bool, password string) settings {
	host, port, _ := strings.Cut(addr, ":")
	return settings{
		"JOBCTL_HOST": host, "JOBCTL_PORT": port,
		"JOBCTL_MASTER": fmt.Sprint(master), "JOBCTL_PASSWORD": password,
	}
}

// with is the settings with others laid over them.
func (s settings) with(others settings) settings {
	merged := maps.Clone(s)
	maps.Copy(merged, others)
	return merged
}

// answer is what a driver printed: out, or the code and the text of an error.
type answer struct{ out, code, text string }

func (a answer) String() string {
	if a.code != "" {
		return fmt.Sprintf("error %s: %.300s", a.code, a.text)
	}
	return fmt.Sprintf("%.600s", a.out)
}

// call runs the driver. It may be called by any goroutine; what is no answer of a client's is an
// error with the code "driver".
func (l language) call(s settings, words ...string) answer {
	ctx, cancel := context.WithTimeout(context.Background(), 3*harness.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, l.command[0], slices.Concat(l.command[1:], words)...)
	cmd.Env = append(os.Environ(), "CLIENTS="+filepath.Join(harness.Top(), "examples", "clients"))
	cmd.Env = append(cmd.Env, "JOBCTL_TIMEOUT=90") // unless the case is about time
	cmd.Env = append(cmd.Env, l.env...)
	for name, value := range s {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return answer{code: "driver", text: "does not end; it wrote " + stdout.String() + stderr.String()}
	case err == nil || l.name == "sh" && errors.As(err, &exit) && exit.ExitCode() == 1:
		return answer{out: strings.TrimSpace(stdout.String())}
	case !errors.As(err, &exit):
		return answer{code: "driver", text: err.Error()}
	case l.name == "sh" && exit.ExitCode() > 2:
		return answer{code: fmt.Sprint(exit.ExitCode()), text: strings.TrimSpace(stderr.String())}
	}
	code, text, told := strings.Cut(strings.TrimSpace(stderr.String()), ": ")
	if exit.ExitCode() != 3 || !told {
		return answer{code: "driver", text: fmt.Sprintf("%v: %s%s", err, stdout.String(), stderr.String())}
	}
	return answer{code: code, text: text}
}

// failed tells whether the answer is an error of this code. The shell's are exit codes.
func (a answer) failed(l language, code string) bool {
	if l.name != "sh" {
		return a.code == code
	}
	switch code {
	case "unreachable":
		return a.code == "4"
	case "timeout", "lost":
		return a.code == "5"
	case "nonsense":
		return a.code == "6"
	}
	return a.code == "3"
}

// everywhere does something with each client, with all of them at once. It may not end the test.
func everywhere(t *testing.T, do func(t *testing.T, n int, l language)) {
	t.Helper()
	var all sync.WaitGroup
	for n, l := range languages(t) {
		all.Go(func() { do(t, n, l) })
	}
	all.Wait()
}

// A driver is a program that calls a client as its arguments say, and prints what it gives:
//
//	enqueue commit|rollback TARGET STATUS PAYLOAD   with an order, in one transaction; the id
//	poke TARGET...
//	run ID:TARGET...                                {"jobs": {…}, "errors": {…}}
//	signal NUMBER ID:TARGET                         true or false
//	status
//
// An error of the client is "code: text" on stderr, and exit code 3. The daemon is in the
// variables of examples/clients/jobd.sh, the application's database in APP_*. The others are in
// testdata; this one is for Go, and is this test's own program, started once more.
func driver(ctx context.Context, command string, words []string) error {
	limit, _ := strconv.Atoi(os.Getenv("JOBCTL_TIMEOUT"))
	pulse, _ := strconv.Atoi(os.Getenv("JOBCTL_PULSE"))
	addr := os.Getenv("JOBCTL_HOST")
	if !strings.Contains(addr, ",") {
		addr = net.JoinHostPort(addr, os.Getenv("JOBCTL_PORT"))
	}
	jobs := &client.Client{
		Addr:     addr,
		Worker:   os.Getenv("JOBCTL_MASTER") != "true",
		Password: os.Getenv("JOBCTL_PASSWORD"),
		Timeout:  time.Duration(limit) * time.Second,
		Pulse:    time.Duration(pulse) * time.Second,
	}
	switch command {
	case "enqueue":
		return enqueue(ctx, words[0], words[1], words[2], words[3])
	case "poke":
		return jobs.Poke(ctx, words...)
	case "run":
		if limit > 0 {
			limited, cancel := context.WithTimeout(ctx, jobs.Timeout)
			defer cancel()
			ctx = limited
		}
		named := map[int64]string{}
		for _, word := range words {
			id, target := split(word)
			named[id] = target
		}
		outcomes, err := jobs.Run(ctx, named)
		return printed(outcomes, err)
	case "signal":
		id, target := split(words[1])
		number, _ := strconv.Atoi(words[0])
		delivered, err := jobs.Signal(ctx, id, target, number)
		return printed(delivered, err)
	case "status":
		status, err := jobs.Status(ctx)
		return printed(status, err)
	}
	return fmt.Errorf("the driver knows no %s", command)
}

func split(word string) (id int64, target string) {
	text, target, _ := strings.Cut(word, ":")
	id, _ = strconv.ParseInt(text, 10, 64)
	return id, target
}

func printed(answer any, err error) error {
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.NewEncoder(&out).Encode(answer); err != nil {
		return err
	}
	_, err = out.WriteTo(os.Stdout)
	return err
}

func enqueue(ctx context.Context, end, target, status, payload string) error {
	kind, source := "sqlite", os.Getenv("APP_SQLITE")
	if source == "" {
		kind, source = "mysql", fmt.Sprintf("%s:%s@tcp(%s:%s)/%s", os.Getenv("APP_USER"), os.Getenv("APP_PASSWORD"),
			os.Getenv("APP_HOST"), os.Getenv("APP_PORT"), os.Getenv("APP_DATABASE"))
	}
	db, err := sql.Open(kind, source)
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // it is over where it was committed
	if _, err := tx.ExecContext(ctx, "INSERT INTO orders (text) VALUES (?)", payload); err != nil {
		return err
	}
	id, err := client.Enqueue(ctx, tx, target, map[string]any{"status": status, "payload": payload})
	if err != nil {
		return err
	}
	if end == "commit" {
		err = tx.Commit()
	}
	return printed(id, err)
}

// drive is the driver as a process; it gives its exit code.
func drive(words []string) int {
	err := driver(context.Background(), words[0], words[1:])
	var told *client.Error
	switch {
	case errors.As(err, &told):
		fmt.Fprintf(os.Stderr, "%s: %s\n", told.Code, told.Text)
		return 3
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// password is what a JSON string, a configuration file and a shell each write in another way.
const password = `gehéim "\ $x`

// applicationTables are an application's: its jobs bear something of its own.
var applicationTables = []string{
	"CREATE TABLE orders (id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY, text varchar(100) NOT NULL) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4",
	`CREATE TABLE jobs (
  id bigint NOT NULL AUTO_INCREMENT PRIMARY KEY,
  target char(16) NOT NULL,
  time_created int UNSIGNED NOT NULL,
  time_started int UNSIGNED NOT NULL DEFAULT 0,
  time_finished int UNSIGNED NOT NULL DEFAULT 0,
  status enum('waiting','manual','accepted','running','done','ignored') NOT NULL DEFAULT 'waiting',
  result enum('ok','fail') DEFAULT NULL,
  return_code tinyint UNSIGNED DEFAULT NULL,
  sig char(10) DEFAULT NULL,
  stdout mediumtext DEFAULT NULL,
  stderr mediumtext DEFAULT NULL,
  payload varchar(100) DEFAULT NULL,
  KEY status_target_idx (status, target, id)
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4`,
}

// site is an application's database, a master and a worker.
type site struct {
	db             *harness.Database
	app            settings // the application's own account
	master, worker *harness.Daemon
	held           string // folder: the launcher of target hold leaves a file there, by its job's id
}

// daemons are the two that a client may ask.
func (s *site) daemons() map[string]settings {
	return map[string]settings{
		"master": daemon(s.master.Addr, true, password),
		"worker": daemon(s.worker.Addr, false, password),
	}
}

const big = 1 << 20

func newSite(t *testing.T) *site {
	t.Helper()
	db := harness.NewDatabase(t, applicationTables...)
	s := &site{db: db, held: t.TempDir(), app: application(t, db)}
	s.master = harness.StartMaster(t, harness.Settings{"password": password})
	launchers := map[string]string{
		"mail":  db.Client() + ` --default-character-set=utf8mb4 -N -r -e "SELECT payload FROM jobs WHERE id = $1"`,
		"words": `printf 'Grüße \t"an" \\ 😀\n'; printf 'to stderr\n' >&2`,
		"fail":  `echo broken >&2; exit 7`,
		"big":   fmt.Sprintf(`head -c %d /dev/zero | tr '\0' '"'`, big),
		"hold":  fmt.Sprintf(`touch '%s'/$1; exec sleep 600`, s.held),
	}
	concurrency := map[string]int{}
	sections := harness.Settings{}
	for target, script := range launchers {
		concurrency[target] = 10
		sections["[target "+target+"] launcher"] = harness.Script(t, script) + " {id}"
	}
	s.worker = db.Worker(t, "clients", "/bin/false {id}", concurrency).With(sections, harness.MasterOf(s.master),
		harness.Settings{"password": password, "max_output_buffer": strconv.Itoa(big)}).StartWorker(t)
	harness.AwaitWorkers(t, s.master, password, 1)
	return s
}

// application makes the application's account, and gives where its database is.
func application(t *testing.T, db *harness.Database) settings {
	t.Helper()
	at := db.Settings()
	user := "app_" + db.Name
	db.Exec(t, fmt.Sprintf("CREATE USER '%s'@'%%' IDENTIFIED BY 'its own'", user))
	db.Exec(t, fmt.Sprintf("GRANT SELECT, INSERT, UPDATE ON %s.* TO '%s'@'%%'", db.Name, user))
	return settings{
		"APP_HOST": at["mysql_host"], "APP_PORT": at["mysql_port"],
		"APP_USER": user, "APP_PASSWORD": "its own", "APP_DATABASE": db.Name,
	}
}

// heldFile is what the launcher of a held job leaves.
func (s *site) heldFile(id int64) string { return filepath.Join(s.held, strconv.FormatInt(id, 10)) }

// insert adds a job that is run by hand.
func (s *site) insert(id int64, target string) error {
	_, err := s.db.Admin.Exec("INSERT INTO jobs (id, target, time_created, status) VALUES (?, ?, UNIX_TIMESTAMP(), 'manual')", id, target)
	return err
}

// count runs a statement that counts.
func (s *site) count(t *testing.T, statement string, args ...any) (n int) {
	t.Helper()
	check.Do(t, s.db.Admin.QueryRowContext(t.Context(), statement, args...).Scan(&n), "%s", statement)
	return n
}

// ended waits until a job is done, and gives target, result and stdout.
func (s *site) ended(id int64) (row string, err error) {
	err = await(func() error {
		var status, told string
		err := s.db.Admin.QueryRow("SELECT status, CONCAT_WS(' ', target, result, stdout) FROM jobs WHERE id = ?", id).Scan(&status, &told)
		if row = told; err == nil && status != "done" {
			err = fmt.Errorf("it is %s", status)
		}
		return err
	})
	return row, err
}

func awaitFile(name string) error {
	return await(func() error {
		_, err := os.Stat(name)
		return err
	})
}

// await tries again until there is no error. Other than harness.Until it may be called by any
// goroutine.
func await(condition func() error) (err error) {
	patience := time.NewTimer(harness.Patience)
	defer patience.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		if err = condition(); err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-patience.C:
			return err
		}
	}
}

// The clients for PHP and Node.js reach a daemon over a socket that is set, or that is there where nothing
// says where to go; and send nothing to one that others may have put there.
func TestClientsOnASocket(t *testing.T) {
	t.Parallel()
	folder := must.Get(os.MkdirTemp("", "clients"))(t) // its path is short
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	socket := filepath.Join(folder, "jobd-master.sock")
	harness.StartMaster(t, harness.Settings{"password": password, "listen_unix": socket})
	const foreign, refused = 54321, "it, or its folder, belongs to another account"
	set := settings{"JOBCTL_SOCKET": socket}
	for _, test := range []struct {
		name           string
		file, folder   int // whose they are
		ask            settings
		code, contains string
	}{
		{"a socket that is set", 0, 0, set, "", `"workers":[]`},
		{"a socket that is there", 0, 0, settings{"JOBCTL_SOCKETS": folder}, "", `"workers":[]`},
		{"none there, and nobody at the port", 0, 0, settings{"JOBCTL_SOCKETS": t.TempDir()}, "unreachable", "jobd-master.sock: "},
		{"none where one is set", 0, 0, settings{"JOBCTL_SOCKET": socket + ".2"}, "unreachable", "jobd-master at " + socket + ".2 can't be reached: "},
		{"another's socket", foreign, 0, set, "unreachable", refused},
		{"another's folder", 0, foreign, set, "unreachable", refused},
		{"that of the owner who is set", foreign, foreign, set.with(settings{"JOBCTL_OWNER": "54321"}), "", `"workers":[]`},
	} {
		if os.Geteuid() == 0 {
			must.Do(t, os.Chown(socket, test.file, -1))
			must.Do(t, os.Chown(folder, test.folder, -1))
		} else if test.file+test.folder != 0 {
			continue // another account needs root
		}
		for _, l := range languages(t) {
			if l.name != "php" && l.name != "node" {
				continue
			}
			told := l.call(test.ask.with(settings{"JOBCTL_MASTER": "true", "JOBCTL_PASSWORD": password}), "status")
			if told.code != test.code || !strings.Contains(told.out+told.text, test.contains) {
				t.Errorf("%s, %s: %v, want %q", l.name, test.name, told, test.contains)
			}
		}
	}
}
