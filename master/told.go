package master

import (
	"context"
	"log/slog"

	jobnet "jobd/net"
	"jobd/net/contract"
)

// changing are the requests by which a client changes something, whoever carries it out.
var changing = map[string]bool{
	contract.MasterPause.Name: true, contract.MasterContinue.Name: true, contract.MasterRecycle.Name: true, contract.RouteManual.Name: true,
	contract.RouteSignal.Name: true, contract.JournalReapply: true, "cancel": true, "retry": true,
}

// told has the log say who asks for a change, and which. What became of it the workers' logs and
// journals say, with the client's name.
func (m *Master) told(handler jobnet.Handler) jobnet.Handler {
	return func(ctx context.Context, link *jobnet.Link, request jobnet.Request) (any, error) {
		if changing[request.Type] && m.config.Logger.Enabled(ctx, slog.LevelInfo) {
			m.say(slog.LevelInfo, link, "a change is asked for", "request", request.Type, "about", shownData(request.Data))
		}
		return handler(ctx, link, request)
	}
}

// shownData is the beginning of a request's data.
func shownData(data []byte) string { return cut(string(data[:min(len(data), textShown+1)])) }
