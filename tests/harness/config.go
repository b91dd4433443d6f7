package harness

import (
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"jobd/store/storetest/freeport"
	"jobd/store/storetest/must"
)

// Settings are the keys of a configuration file. Keys that begin with a section, as in
// "[targets] a" or "[target a] attempts", stand in that section.
type Settings map[string]string

const targetPrefix = "[targets] "

// Targets gives settings with a concurrency for each target.
func Targets(concurrency map[string]int) Settings {
	s := Settings{}
	for name, n := range concurrency {
		s[targetPrefix+name] = strconv.Itoa(n)
	}
	return s
}

// With is the settings with others laid over them; the receiver is left as it is.
func (s Settings) With(others ...Settings) Settings {
	merged := maps.Clone(s)
	for _, other := range others {
		maps.Copy(merged, other)
	}
	return merged
}

// Without is the settings less some keys; the receiver is left as it is.
func (s Settings) Without(keys ...string) Settings {
	fewer := maps.Clone(s)
	for _, key := range keys {
		delete(fewer, key)
	}
	return fewer
}

// String is the settings as a configuration file.
func (s Settings) String() string {
	var top strings.Builder
	sections := map[string]*strings.Builder{}
	for _, key := range slices.Sorted(maps.Keys(s)) {
		section, name, isIn := strings.Cut(key, "] ")
		if !isIn || key[0] != '[' {
			fmt.Fprintf(&top, "%s = %s\n", key, iniQuoted(s[key]))
			continue
		}
		if sections[section] == nil {
			sections[section] = &strings.Builder{}
		}
		value := s[key]
		if section+"] " != targetPrefix {
			value = iniQuoted(value)
		}
		fmt.Fprintf(sections[section], "%s = %s\n", name, value)
	}
	for _, section := range slices.Backward(slices.Sorted(maps.Keys(sections))) { // [targets] before [target NAME]
		fmt.Fprintf(&top, "\n%s]\n%s", section, sections[section])
	}
	return top.String()
}

// iniQuoted is a value as it stands in a configuration file, whatever it holds.
func iniQuoted(value string) string {
	var quoted strings.Builder
	encoder := json.NewEncoder(&quoted)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		panic(err) // strings always encode
	}
	return strings.TrimSpace(quoted.String())
}

// Addr is where a daemon with these settings listens.
func (s Settings) Addr() string { return net.JoinHostPort(s["host"], s["port"]) }

// Write writes the settings as a file of its own.
func (s Settings) Write(t testing.TB) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "jobd.conf")
	if err := os.WriteFile(file, []byte(s.String()), 0o600); err != nil {
		t.Fatalf("write the configuration: %v", err)
	}
	return file
}

// StartWorker starts jobd with the settings and waits until it answers.
func (s Settings) StartWorker(t testing.TB) *Daemon {
	t.Helper()
	return Launch(t, "jobd", s.Write(t), s.Addr()).Ready(t)
}

// Refused starts jobd with the settings and gives the exit code and the words that it ends with.
func (s Settings) Refused(t testing.TB) (code int, output string) {
	t.Helper()
	d := Launch(t, "jobd", s.Write(t), s.Addr())
	return d.ExitCode(t), d.Output()
}

// Worker is the settings of a jobd on the database, with a journal and a port of its own.
func (db *Database) Worker(t testing.TB, name, launcher string, targets map[string]int) Settings {
	t.Helper()
	return db.Settings().With(Targets(targets), Settings{
		"host": "127.0.0.1", "port": FreePort(t),
		"name":              name,
		"launcher":          launcher,
		"journal_dir":       filepath.Join(t.TempDir(), "journal"),
		"log_level_console": "info",
	})
}

// StartMaster starts jobd-master with settings laid over the least it needs.
func StartMaster(t testing.TB, others ...Settings) *Daemon {
	t.Helper()
	s := Settings{"host": "127.0.0.1", "port": FreePort(t), "log_level_console": "info"}.With(others...)
	return Launch(t, "jobd-master", s.Write(t), s.Addr()).Ready(t)
}

// MasterOf is the settings that make a worker register with a master.
func MasterOf(master *Daemon) Settings {
	host, port, _ := strings.Cut(master.Addr, ":")
	return Settings{"master_host": host, "master_port": port, "master_reconnect_timeout": "1"}
}

// FreePort is a port for a daemon: nobody has it, and nobody else gets it, see freeport.
func FreePort(t testing.TB) string {
	t.Helper()
	port := must.Get(freeport.Take())(t)
	return strconv.Itoa(port)
}
