package web

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"

	"jobd/cmd/internal/conf"
)

// mostReport is how long a report may be.
const mostReport = 1 << 20

// Ask asks a daemon of jobd how it is, without TLS, or with where that is required. The error says that none
// answers there.
func Ask(ctx context.Context, at conf.HTTP) (report Report, err error) {
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // nothing secret is said
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, at.Network, at.Address)
		},
	}}
	if report, err = ask(ctx, client, "http"); err != nil {
		report, err = ask(ctx, client, "https")
	}
	return report, err
}

func ask(ctx context.Context, client *http.Client, scheme string) (report Report, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://jobd/healthz?format=json", http.NoBody)
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
