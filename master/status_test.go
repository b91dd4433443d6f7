package master

import (
	"testing"

	jobnet "jobd/net"
	"jobd/net/api"
)

// A master tells of itself of which commit it was built, beside its workers.
func TestStatusTellsOfWhichCommitAMasterIs(t *testing.T) {
	t.Parallel()
	build := api.Build{Version: "1.2.3", Commit: "0123456789abcdef", CommitDate: "2026-11-20T14:00:00Z"}
	address, _, _ := serveMaster(t, Config{Build: build}, "")
	client := connect(t, address, jobnet.LinkConfig{})
	expect(t, ask(t, client, "status", nil), `{"workers":[],"version":"1.2.3","commit":"0123456789abcdef","commitDate":"2026-11-20T14:00:00Z"}`)
}
