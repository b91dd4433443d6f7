// Jobd-master finds the workers that serve a target: workers register with it, clients ask it, and
// it asks the workers. Its configuration is /etc/jobd-master.conf; see --help and
// docs/configuration.md.
//
// It keeps no state on disk but a journal of what it was asked to change. When it crashes, workers reconnect and register again; package master
// tells what that means for pokes and for clients that wait.
package main
