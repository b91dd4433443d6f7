// Package services sends requests, as a worker does, to real servers: those of PHP, Python, Ruby and
// Node.js with the code of examples/services, by which they check who is asking, Express, and
// nginx in front of it. And it has real workers send the jobs of their rows to a service.
package services
