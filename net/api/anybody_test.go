package api_test

import "jobd/net/principal"

// anybody may do everything.
var anybody = principal.Known("", "", "127.0.0.1:1")
