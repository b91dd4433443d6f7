package archive

import (
	"jobd/journal"
)

// Payloads are read with encoding/json. That costs more than all the rest of a replay, so the four
// kinds that make up nearly all of a journal are read by hand, in exactly the form in which the
// encoder writes them; whatever differs by a byte (an escape, a character beyond ASCII, another
// order) is left to encoding/json.

// Decoder reads payloads. It keeps the newest value of each text that repeats, so that they share
// their memory. It is not safe for concurrent use.
type Decoder struct {
	target, runner, executor, boot, address, result string
}

// decode gives the payload of a record.
func (p *Decoder) decode(r *Record) (journal.Payload, error) {
	c := cursor{rest: r.Payload}
	switch r.Kind {
	case journal.KindAccepted:
		if v, ok := p.accepted(&c); ok {
			return v, nil
		}
	case journal.KindRunning:
		if v, ok := p.running(&c); ok {
			return v, nil
		}
	case journal.KindStarted:
		if v, ok := p.started(&c); ok {
			return v, nil
		}
	case journal.KindDone:
		if v, ok := p.done(&c); ok {
			v.Stdout.Kept, v.Stderr.Kept = r.Stdout, r.Stderr
			return v, nil
		}
	}
	return r.DecodePayload()
}

func (p *Decoder) accepted(c *cursor) (journal.Accepted, bool) {
	var v journal.Accepted
	c.expect(`{"target":"`)
	v.Target = c.shared(&p.target)
	v.Manual = c.skip(`,"manual":true`)
	c.expect(`,"token":"`)
	v.Token = string(c.text())
	if c.skip(`,"created":`) {
		v.Created = c.number()
	}
	return v, c.end()
}

func (p *Decoder) running(c *cursor) (journal.Running, bool) {
	var v journal.Running
	c.expect(`{"attempt":`)
	v.Attempt = int(c.number())
	if c.skip(`,"runner":"`) {
		v.Runner = c.shared(&p.runner)
	}
	v.Claimed = c.skip(`,"claimed":true`)
	if c.skip(`,"token":"`) {
		v.Token = string(c.text())
	}
	if c.skip(`,"timeout":`) {
		v.Timeout = c.number()
	}
	if c.skip(`,"kill_after":`) {
		v.KillAfter = c.number()
	}
	if c.skip(`,"executor":"`) {
		v.Executor = c.shared(&p.executor)
	}
	return v, c.end()
}

func (p *Decoder) started(c *cursor) (journal.Started, bool) {
	var v journal.Started
	c.expect(`{"pid":`)
	v.Pid = int(c.number())
	c.expect(`,"start_time":`)
	v.StartTime = uint64(c.number())
	c.expect(`,"boot_id":"`)
	v.BootID = c.shared(&p.boot)
	if c.skip(`,"address":"`) {
		v.Address = c.shared(&p.address)
	}
	return v, c.end()
}

func (p *Decoder) done(c *cursor) (journal.Done, bool) {
	var v journal.Done
	c.expect(`{"result":"`)
	v.Result = c.shared(&p.result)
	c.expect(`,"code":`)
	if !c.skip(`null`) {
		code := int(c.number())
		v.Code = &code
	}
	if c.skip(`,"signal":"`) {
		v.Signal = string(c.text())
	}
	c.expect(`,"stdout":{"size":`)
	v.Stdout.Size = c.number()
	c.expect(`},"stderr":{"size":`)
	v.Stderr.Size = c.number()
	c.expect(`}`)
	if c.skip(`,"reason":"`) {
		v.Reason = string(c.text())
	}
	if c.skip(`,"elapsed":`) {
		v.Elapsed = c.number()
	}
	if c.skip(`,"token":"`) {
		v.Token = string(c.text())
	}
	return v, c.end()
}

// cursor walks through JSON of a known form. Once something is not as expected it stays failed.
type cursor struct {
	rest   []byte
	failed bool
}

// skip passes over text where it comes next, and reports whether it did.
func (c *cursor) skip(text string) bool {
	if c.failed || len(c.rest) < len(text) || string(c.rest[:len(text)]) != text {
		return false
	}
	c.rest = c.rest[len(text):]
	return true
}

func (c *cursor) expect(text string) {
	c.failed = !c.skip(text)
}

// text is the rest of a string and passes over its closing quote.
func (c *cursor) text() []byte {
	for i, b := range c.rest {
		switch {
		case b == '"':
			text := c.rest[:i]
			c.rest = c.rest[i+1:]
			return text
		case b < ' ' || b >= 0x7f || b == '\\':
			c.failed = true
			return nil
		}
	}
	c.failed = true
	return nil
}

// shared is text as a string, the one in last where it is the same.
func (c *cursor) shared(last *string) string {
	if text := c.text(); string(text) != *last {
		*last = string(text)
	}
	return *last
}

// number is a whole number of at most 18 digits, without a sign or leading zeros.
func (c *cursor) number() int64 {
	n, digits := int64(0), 0
	for digits < len(c.rest) && c.rest[digits] >= '0' && c.rest[digits] <= '9' {
		n = n*10 + int64(c.rest[digits]-'0')
		digits++
	}
	if digits == 0 || digits > 18 || digits > 1 && c.rest[0] == '0' {
		c.failed = true
	}
	c.rest = c.rest[digits:]
	return n
}

// end reports whether the object ends here and everything was as expected.
func (c *cursor) end() bool {
	c.expect(`}`)
	return !c.failed && len(c.rest) == 0
}

// kindOf is bytes as a kind, without taking memory for the frequent ones.
func kindOf(b []byte) journal.Kind {
	for _, kind := range [...]journal.Kind{journal.KindAccepted, journal.KindRunning, journal.KindStarted, journal.KindDone} {
		if string(b) == string(kind) {
			return kind
		}
	}
	return journal.Kind(b)
}
