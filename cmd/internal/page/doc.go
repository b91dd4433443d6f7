// Package page is for those who would rather look than type: what jobctl says, in a browser. It has no
// logic of its own. Each request opens a link into the daemon that serves it, on behalf of whoever is
// signed in, and asks what jobctl would ask; the daemon's one gate judges it, and its journal names who it
// was. What is shown are operator's answers and reason's words.
//
//	browser ── GET ──► screen ── view ──► operator ── link ──► gate ──► handlers
//	   ▲                 │                    ▲
//	   ├──── frame ◄─────┘ templates          │
//	   ├──── live (the same view, again and again, where it has changed)
//	   └──── POST ──► act ─────────────────────┘ then back to where it was asked from
//
//	page.go      a screen is declared once: address, title, request that it needs, view
//	acts.go      what one may do, each declared once, with the screen that says what it will do
//	frame.go     what stands around all screens; how values are written
//	then.go      how it was at a time, by the journals
//	live.go      what has changed is sent to those who look at it
//	front.go … journal.go   the views: answers in, what a template shows out
//	templates/, static/     all that a browser gets; no build step, no other host
//
// Who asks, and whether that may be a page of another site, is settled before (package web).
package page
