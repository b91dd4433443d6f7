//go:build race

package net

const raceDetected = true
