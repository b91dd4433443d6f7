package web

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"

	"jobd/cmd/internal/conf"
)

// mostReport is how long a report may be.
const mostReport = 1 << 20

// Ask asks a daemon of jobd how it is. The error says that none answers there.
func Ask(ctx context.Context, at conf.HTTP) (report Report, err error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, at.Network, at.Address)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://jobd/healthz?format=json", http.NoBody)
	if err != nil {
		return report, err
	}
	answer, err := client.Do(request)
	if err != nil {
		return report, err
	}
	defer answer.Body.Close()
	return report, json.NewDecoder(io.LimitReader(answer.Body, mostReport)).Decode(&report)
}
