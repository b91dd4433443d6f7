package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// noticeFile is a file in a module's folder whose text goes wherever its code goes.
var noticeFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice|patents)`)

// notLicences are among them: what they say is about a picture.
var notLicences = []string{"LICENSE-LOGO"}

// readLicence finds under what licence a module is, and its words.
func (o order) readLicence(m *module) error {
	folder, err := o.folder(*m)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	var text strings.Builder
	for _, entry := range entries {
		if entry.IsDir() || !noticeFile.MatchString(entry.Name()) || slices.Contains(notLicences, entry.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&text, "\n---- %s ----\n\n%s\n", entry.Name(), strings.TrimSpace(string(content)))
	}
	m.text = text.String()
	m.licence = strings.Join(licencesIn(m.text), " AND ")
	if m.licence == "" {
		return fmt.Errorf("%s %s: no licence that is known here in %s; licencesIn has those that are", m.path, m.version, folder)
	}
	return nil
}

// folder is where the sources of a module are.
func (o order) folder(m module) (string, error) {
	if m.path == "std" {
		return goRoot()
	}
	list := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", m.path)
	list.Dir, list.Stderr = o.root, os.Stderr
	list.Env = append(slices.DeleteFunc(os.Environ(), ofTarget), "GOWORK=off", "GOFLAGS=")
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list -m %s: %w", m.path, err)
	}
	return strings.TrimSpace(string(out)), nil
}

func goRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT of %s: %w", runtime.Version(), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// licencesIn tells, as SPDX names them, the licences whose words are in a text.
func licencesIn(text string) []string {
	words := strings.Join(strings.Fields(text), " ")
	has := func(phrase string) bool { return strings.Contains(words, phrase) }
	var found []string
	add := func(name string, there bool) {
		if there {
			found = append(found, name)
		}
	}
	const bsd = "Redistribution and use in source and binary forms"
	add("Apache-2.0", has("Apache License Version 2.0, January 2004"))
	add("BSD-2-Clause", has(bsd) && !has("endorse or promote products"))
	add("BSD-3-Clause", has(bsd) && has("endorse or promote products"))
	add("ISC", has("Permission to use, copy, modify, and/or distribute this software for any purpose with or without fee"))
	add("MIT", has("Permission is hereby granted, free of charge, to any person obtaining a copy"))
	add("MPL-2.0", has("Mozilla Public License Version 2.0"))
	add("Unlicense", has("This is free and unencumbered software released into the public domain"))
	add("blessing", has("May you find forgiveness for yourself and forgive others"))
	return found
}
