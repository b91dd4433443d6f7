// The page in a real browser: a module of its own, since what drives the browser is large.
module jobd/tests/browser

go 1.26.0

require (
	github.com/chromedp/chromedp v0.23.0
	jobd v0.0.0
	jobd/tests v0.0.0
)

replace jobd => ../..

replace jobd/tests => ..
