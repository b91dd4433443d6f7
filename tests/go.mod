// Whole-system tests: real processes of the built daemons against real servers.
module jobd/tests

go 1.26.0

require jobd v0.0.0

replace jobd => ../
