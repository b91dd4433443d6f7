package main

import (
	"debug/buildinfo"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

var programNames = []string{"jobd", "jobd-master", "jobctl"}

// build builds the programs for an architecture, without symbols for debuggers; what a crash prints
// has its names and lines all the same. It tells their paths.
func (o order) build(arch string) ([]string, error) {
	folder := filepath.Join(o.work, "bin-"+arch)
	args := []string{
		"build", "-trimpath", "-buildvcs=false",
		"-ldflags", fmt.Sprintf("-s -w -X jobd/cmd/internal/version.commit=%s -X jobd/cmd/internal/version.date=%s", o.commit, o.date),
		"-o", folder + "/",
	}
	var paths []string
	for _, name := range programNames {
		args = append(args, "./cmd/"+name)
		paths = append(paths, filepath.Join(folder, name))
	}
	build := exec.Command("go", args...)
	build.Dir, build.Stderr = o.root, os.Stderr
	// What else the environment has of Go's would be in the bytes.
	build.Env = append(slices.DeleteFunc(os.Environ(), ofTarget), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOWORK=off", "GOFLAGS=")
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("go build: %w", err)
	}
	return paths, nil
}

// ofTarget says whether a variable of the environment says what go build makes.
func ofTarget(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains([]string{"CGO_ENABLED", "GOOS", "GOARCH", "GOAMD64", "GOARM64", "GOEXPERIMENT", "GOFIPS140", "GOWORK", "GOFLAGS"}, name)
}

// module is a module whose code is in a program, or Go itself.
type module struct {
	path    string
	version string // v1.2.3; of Go go1.26.0
	sum     string // as go.sum has it; "" for Go
	licence string // as SPDX names it
	text    string // of the licence
}

// linked tells what is linked into the programs, by what the linker wrote into them: Go first, then
// the modules by their paths.
func (o order) linked(programs []string) ([]module, error) {
	found := map[string]module{}
	compiler := ""
	for _, path := range programs {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("what is in %s: %w", path, err)
		}
		compiler = info.GoVersion
		for _, dep := range info.Deps {
			if dep.Replace != nil {
				return nil, fmt.Errorf("%s is replaced by %s: what is published is made of published modules", dep.Path, dep.Replace.Path)
			}
			found[dep.Path] = module{path: dep.Path, version: dep.Version, sum: dep.Sum}
		}
	}
	modules := []module{{path: "std", version: compiler}}
	for _, path := range slices.Sorted(maps.Keys(found)) {
		modules = append(modules, found[path])
	}
	for i := range modules {
		if err := o.readLicence(&modules[i]); err != nil {
			return nil, err
		}
	}
	return modules, nil
}
