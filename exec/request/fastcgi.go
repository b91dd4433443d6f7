package request

import (
	"context"
	"net"
	"strconv"
	"strings"
	"time"

	jobexec "jobd/exec"
	"jobd/exec/request/fcgi"
)

// fastcgiService speaks FastCGI, over a connection for each request. A connection that stays would keep
// a process of php-fpm to itself, which serves nobody else as long as it has one.
type fastcgiService struct {
	network string // unix or tcp
	address string // a path, or host:port
	script  string
}

// newFastCGI makes the service at an address, which the configuration has looked at.
func newFastCGI(of jobexec.Service) *fastcgiService {
	f := &fastcgiService{network: "unix", address: of.Address, script: of.Script}
	if !strings.HasPrefix(of.Address, "/") {
		f.network = "tcp"
	}
	return f
}

func (f *fastcgiService) where() string { return "fastcgi:" + f.address }

// dial connects. A unix socket whose queue is full refuses connections, which is a shortage that passes.
func (f *fastcgiService) dial(ctx context.Context) (*connection, error) {
	var dialer net.Dialer
	raw, err := dialer.DialContext(ctx, f.network, f.address)
	if err != nil {
		return nil, err
	}
	return connected(raw, namedAddress(f.address, raw.RemoteAddr())), nil
}

// params are what the script is told: by JOBD_… of the job, by the names of CGI of the request.
func (f *fastcgiService) params(spec *jobexec.Spec, now time.Time) []fcgi.Param {
	id := strconv.FormatInt(spec.Job, 10)
	params := []fcgi.Param{
		{Name: "GATEWAY_INTERFACE", Value: "CGI/1.1"},
		{Name: "SERVER_SOFTWARE", Value: "jobd"},
		{Name: "SERVER_NAME", Value: "jobd"},
		{Name: "SERVER_PORT", Value: "0"},
		{Name: "SERVER_PROTOCOL", Value: "HTTP/1.1"},
		{Name: "REMOTE_ADDR", Value: "127.0.0.1"},
		{Name: "REQUEST_METHOD", Value: method},
		{Name: "CONTENT_LENGTH", Value: "0"},
		{Name: "CONTENT_TYPE", Value: ""},
		{Name: "SCRIPT_FILENAME", Value: f.script},
		{Name: "SCRIPT_NAME", Value: f.script},
		{Name: "REQUEST_URI", Value: f.script + "?" + id},
		{Name: "QUERY_STRING", Value: id},
	}
	for _, v := range variablesOf(spec, now) {
		params = append(params, fcgi.Param(v))
	}
	if parent := traceparent(spec); parent != "" {
		params = append(params, fcgi.Param{Name: "TRACEPARENT", Value: parent})
	}
	return params
}
