package daemon

import (
	"sync"
	"sync/atomic"
	"time"

	"jobd/cmd/internal/logging"
)

// Reading is how a daemon stands with the configuration on the disk: a SIGHUP answers nobody, and
// with a configuration that was refused the next start would fail, weeks later perhaps.
type Reading struct {
	reloading sync.Mutex // held while a configuration is taken over

	refused atomic.Int64 // when, in unix milliseconds; 0: the configuration on the disk is in force
}

// Refused is since when the configuration on the disk has not been in force, because it has a
// mistake; zero where it is. What is wrong stands in the log alone: it may quote passwords.
func (r *Reading) Refused() time.Time {
	if at := r.refused.Load(); at != 0 {
		return time.UnixMilli(at)
	}
	return time.Time{}
}

// Words add to the words by which the service manager is told how the daemon stands.
func (r *Reading) Words(words string) string {
	if since := r.Refused(); !since.IsZero() {
		words += "; the configuration was refused at " + since.Local().Format(time.DateTime) + ": the log says why"
	}
	return words
}

// Reload is what a SIGHUP does: it opens the log file anew and takes over another configuration,
// its log levels among it. takeOver reads that and takes over everything else; where it fails,
// everything stays as it was, and the error is that.
func (r *Reading) Reload(log *logging.Log, takeOver func() (Settings, error)) error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	if err := log.Reopen(); err != nil {
		log.Error("log file could not be opened again", "error", err)
	}
	settings, err := takeOver()
	if err != nil {
		r.refused.CompareAndSwap(0, time.Now().UnixMilli())
		log.Error("configuration is refused; the old one stays in force", "error", err)
		return err
	}
	r.refused.Store(0)
	log.Warnings(settings.Warnings)
	log.SetLevels(settings.Log)
	log.Info("configuration was read again", "file", settings.Path)
	return nil
}
