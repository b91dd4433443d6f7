package mysql

import (
	"sync/atomic"
	"time"
)

// lockMemory remembers when a row was last found locked. For a while from then on nobody waits for
// locks first, or a row that stays locked would cost every batch the wait.
type lockMemory struct{ until atomic.Pointer[time.Time] }

// lockMemoryLasts is longer than the mirror lets pass before it tries a held row again.
const lockMemoryLasts = time.Minute

func (m *lockMemory) note() {
	until := time.Now().Add(lockMemoryLasts)
	m.until.Store(&until)
}

func (m *lockMemory) lately() bool {
	until := m.until.Load()
	return until != nil && time.Now().Before(*until)
}
