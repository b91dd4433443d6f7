package clients

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"jobd/tests/harness"
)

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
	if err := s.db.Admin.QueryRowContext(t.Context(), statement, args...).Scan(&n); err != nil {
		t.Errorf("%s: %v", statement, err)
	}
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
